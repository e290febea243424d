// Package registry is the write path of the API, and its readers, with or without a request: it takes hub objects
// through metadata, admission and the strategy of their kind into the store. It knows nothing of HTTP: handlers decode
// and answer.
package registry

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Resource joins a row of the table with its cache, which is nil for kinds that are answered, not stored, and holds
// nothing for those that are read from elsewhere.
type Resource struct {
	Kind  *api.Kind
	Cache *cache.Cache
}

// Config of a Registry.
type Config struct {
	Resources []Resource
	Scheme    *runtime.Scheme
	// Types are those of the scheme; registries may share them. Nil makes them.
	Types *fieldmanager.Types
	// Admission is asked on every write; nil admits all.
	Admission admission.Interface
	Clock     clock.PassiveClock
	// NoCollector leaves finalizers alone that make a deletion wait for the garbage collector.
	NoCollector bool
	// DeleteWorkers is how many objects of a collection are deleted at a time; 0 means one.
	DeleteWorkers int
}

// Key names an endpoint.
type Key struct {
	schema.GroupVersion
	Resource, Subresource string
}

// Registry has the endpoints to all resources. It is safe for concurrent use, but for Install.
type Registry struct {
	config    Config
	endpoints map[Key]*Endpoint // of the kinds of the program
	objects   *objectInterfaces
	// custom are the endpoints that come and go; see Install.
	custom atomic.Pointer[customEndpoints]
}

// New makes the endpoints to the resources given.
func New(config Config) *Registry {
	config.Admission = admission.WithAudit(config.Admission)
	if config.Types == nil {
		config.Types = fieldmanager.NewTypes(config.Scheme)
	}
	g := &Registry{
		config:    config,
		endpoints: map[Key]*Endpoint{},
	}
	g.objects = newObjectInterfaces(g)
	for _, r := range config.Resources {
		for i := range r.Kind.Versions {
			if v := &r.Kind.Versions[i]; !v.Unserved {
				g.open(g.endpoints, r, v)
			}
		}
	}
	return g
}

// Endpoints returns those of the kinds of the program in their served versions. The map must not be changed.
func (g *Registry) Endpoints() map[Key]*Endpoint { return g.endpoints }

// customEndpoints are the endpoints to custom resources. They are replaced as a whole.
type customEndpoints struct {
	resources map[Resource]bool
	endpoints map[Key]*Endpoint
	local     map[schema.GroupResource]*Endpoint // to the stored versions
	kinds     map[schema.GroupVersionKind]*api.Kind
}

// Install replaces the custom resources that are there beside the kinds of the program, and returns the endpoints to
// all their versions, served or not, in a map that must not be changed. An endpoint to a resource that stays is the
// same one. Install must not be called concurrently with itself.
func (g *Registry) Install(resources []Resource) map[Key]*Endpoint {
	before := g.custom.Load()
	now := &customEndpoints{
		resources: map[Resource]bool{}, endpoints: map[Key]*Endpoint{},
		local: map[schema.GroupResource]*Endpoint{}, kinds: map[schema.GroupVersionKind]*api.Kind{},
	}
	for _, r := range resources {
		now.resources[r] = true
		for i := range r.Kind.Versions {
			v := &r.Kind.Versions[i]
			now.kinds[v.WithKind(r.Kind.Name)] = r.Kind
			if before == nil || !before.resources[r] {
				g.open(now.endpoints, r, v)
			}
		}
	}
	if before != nil { // endpoints remember their field managers
		for key, ep := range before.endpoints {
			if now.resources[Resource{ep.Kind, ep.Cache}] {
				now.endpoints[key] = ep
			}
		}
	}
	for key, ep := range now.endpoints {
		if key.Subresource == "" && key.GroupVersion == ep.Kind.Hub {
			now.local[ep.Resource] = ep
		}
	}
	g.custom.Store(now)
	return now.endpoints
}

// endpoint finds the endpoint of a resource or subresource, or nil.
func (g *Registry) endpoint(resource schema.GroupVersionResource, subresource string) *Endpoint {
	key := Key{resource.GroupVersion(), resource.Resource, subresource}
	if ep := g.endpoints[key]; ep != nil {
		return ep
	}
	if custom := g.custom.Load(); custom != nil {
		if ep := custom.endpoints[key]; ep != nil && !ep.Version.Unserved {
			return ep
		}
	}
	return nil
}

// copyOf is a hub object that may be changed.
func copyOf(obj api.Object) api.Object { return obj.DeepCopyObject().(api.Object) }
