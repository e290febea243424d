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
	byLabel      = "pods-by-label"
)

// Index finds pods by controller, by node and by labels. Pods it returns are shared and read-only.
type Index struct {
	indexer cache.Indexer
}

// NewIndex adds the indexes to the factory's pod informer, once for all controllers; the informer must not have
// started.
func NewIndex(factory informers.SharedInformerFactory) (*Index, error) {
	informer := factory.Core().V1().Pods().Informer()
	if _, ok := informer.GetIndexer().GetIndexers()[byController]; !ok {
		err := informer.AddIndexers(cache.Indexers{byController: controllerKey, byNode: nodeKey, byLabel: labelKeys})
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

func labelKeys(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	keys := make([]string, 0, len(pod.Labels))
	for name, value := range pod.Labels {
		keys = append(keys, labelKey(pod.Namespace, name, value))
	}
	return keys, nil
}

// labelKey is unambiguous: namespaces have no slash, and names of labels no equals sign.
func labelKey(namespace, name, value string) string { return namespace + "/" + name + "=" + value }

// orphans can't be mistaken for a UID: those have no slash.
func orphans(namespace string) string { return "orphans/" + namespace }

// ControlledBy returns the pods of the owner with uid.
func (x *Index) ControlledBy(uid types.UID) []*v1.Pod { return x.find(byController, string(uid)) }

// Orphans returns the pods of namespace without a controller reference.
func (x *Index) Orphans(namespace string) []*v1.Pod { return x.find(byController, orphans(namespace)) }

// OnNode returns the pods bound to the node.
func (x *Index) OnNode(name string) []*v1.Pod { return x.find(byNode, name) }

// Selected returns the pods of namespace that have all labels. It looks at those only that have one of them, of which
// there are the fewest; without labels at all pods of the namespace.
func (x *Index) Selected(namespace string, selector map[string]string) []*v1.Pod {
	if len(selector) == 0 {
		return x.find(cache.NamespaceIndex, namespace)
	}
	var fewest []*v1.Pod
	first := true
	for name, value := range selector {
		if found := x.find(byLabel, labelKey(namespace, name, value)); first || len(found) < len(fewest) {
			fewest, first = found, false
		}
	}
	if len(selector) == 1 {
		return fewest
	}
	return Filter(fewest, func(pod *v1.Pod) bool { return HasLabels(pod, selector) })
}

// HasLabels tells whether the pod has all labels.
func HasLabels(pod *v1.Pod, labels map[string]string) bool {
	for name, value := range labels {
		if has, ok := pod.Labels[name]; !ok || has != value {
			return false
		}
	}
	return true
}

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
