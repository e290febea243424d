package pods

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

const (
	byController = "pods-by-controller"
	byNode       = "pods-by-node"
)

// Index finds pods by controller and by node. Pods it returns are shared and read-only.
type Index struct {
	indexer cache.Indexer
}

// NewIndex adds the indexes to the factory's pod informer, once for all controllers; the informer must not have
// started.
func NewIndex(factory informers.SharedInformerFactory) (*Index, error) {
	informer := factory.Core().V1().Pods().Informer()
	if _, ok := informer.GetIndexer().GetIndexers()[byController]; !ok {
		err := informer.AddIndexers(cache.Indexers{byController: controllerKey, byNode: nodeKey})
		if err != nil {
			return nil, err
		}
	}
	return &Index{indexer: informer.GetIndexer()}, nil
}

func controllerKey(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return []string{orphans(pod.Namespace)}, nil
}

func nodeKey(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

// orphans can't be mistaken for a UID: those have no slash.
func orphans(namespace string) string { return "orphans/" + namespace }

// ControlledBy returns the pods of the owner with uid.
func (x *Index) ControlledBy(uid types.UID) []*v1.Pod { return x.find(byController, string(uid)) }

// Orphans returns the pods of namespace without a controller reference.
func (x *Index) Orphans(namespace string) []*v1.Pod { return x.find(byController, orphans(namespace)) }

// OnNode returns the pods bound to the node.
func (x *Index) OnNode(name string) []*v1.Pod { return x.find(byNode, name) }

func (x *Index) find(index, key string) []*v1.Pod {
	objects, err := x.indexer.ByIndex(index, key)
	if err != nil {
		return nil // only an unknown index is an error, and NewIndex made these
	}
	found := make([]*v1.Pod, 0, len(objects))
	for _, obj := range objects {
		if pod, ok := obj.(*v1.Pod); ok {
			found = append(found, pod)
		}
	}
	return found
}
