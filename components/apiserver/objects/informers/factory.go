// Package informers gives libraries that want client-go's shared informers the objects that the server has in its
// caches: in process, with no client in between and no second copy of any object.
package informers

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/informer"
)

// Factory is client-go's factory of shared informers over an objects.Feeder. It costs next to nothing, and runs
// nothing, before Start. Objects that listers and handlers see are those of the server's caches, and must not be
// changed; like all objects of the caches they don't tell their own kind. It is safe for concurrent use.
type Factory struct {
	informer.Groups
	tracker
	feeder objects.Feeder
	types  map[reflect.Type]form
	names  map[schema.GroupVersionResource]runtime.Object
}

var _ informers.SharedInformerFactory = &Factory{}

// tracker tracks which informers were requested, which run, and which are to be waited for. It is a type of its own so
// that it lies deeper in Factory than Groups, whose methods count.
type tracker struct {
	informers.SharedInformerFactory
}

// form is one Go type of a resource; convert makes it of the stored one, nil if it is that.
type form struct {
	resource schema.GroupResource
	new      func() api.Object
	convert  func(api.Object) (api.Object, error)
}

// New makes a factory of informers of these kinds, in all the versions that have a Go type of their own.
func New(feeder objects.Feeder, table []*api.Kind) *Factory {
	f := &Factory{
		tracker: tracker{informers.NewSharedInformerFactory(nil, 0)},
		feeder:  feeder,
		types:   map[reflect.Type]form{},
		names:   map[schema.GroupVersionResource]runtime.Object{},
	}
	f.Groups = informer.GroupsOf(f)
	for _, kind := range table {
		if kind.Custom != nil || kind.Virtual() {
			continue
		}
		for i := range kind.Versions {
			v := &kind.Versions[i]
			obj := v.New()
			f.names[v.WithResource(kind.Resource)] = obj
			f.types[reflect.TypeOf(obj)] = form{
				resource: schema.GroupResource{Group: kind.Hub.Group, Resource: kind.Resource}, new: v.New,
				convert: v.FromHub,
			}
		}
	}
	return f
}

// InformerFor returns the informer of the objects of that Go type. What a client would be used for is left unused; of a
// type that the server doesn't serve there are no objects.
func (f *Factory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.tracker.InformerFor(obj,
		func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			s := &source{feeder: f.feeder, form: f.types[reflect.TypeOf(obj)]}
			if s.new == nil {
				s.feeder, s.new = nothing{}, func() api.Object { return obj.DeepCopyObject().(api.Object) }
			}
			return informer.New(s.listWatch(), obj, 0,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
}

// ForResource returns the informer of a resource of the table.
func (f *Factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	obj, ok := f.names[resource]
	if !ok {
		return nil, fmt.Errorf("no informer found for %v", resource)
	}
	return generic{f.InformerFor(obj, nil), resource.GroupResource()}, nil
}

// generic implements informers.GenericInformer.
type generic struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

func (g generic) Informer() cache.SharedIndexInformer { return g.informer }
func (g generic) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}
