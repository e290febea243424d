package replicaset

import (
	"context"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

// form is a kind of which the objects are kept as ReplicaSets are, and are seen as such.
type form interface {
	kind() schema.GroupVersionKind
	resource() string
	informer() cache.SharedIndexInformer
	// watch tells of changes, through a loop.
	watch(loop *runner.Loop[string], changed func(old, new *apps.ReplicaSet)) error
	// get, list and selecting read from memory. What they return must not be changed.
	get(namespace, name string) (*apps.ReplicaSet, error)
	list(namespace string) ([]*apps.ReplicaSet, error)
	selecting(pod *v1.Pod) []*apps.ReplicaSet
	// live reads from the API server.
	live(ctx context.Context, namespace, name string) (*apps.ReplicaSet, error)
	// writeStatus returns the resource version that it wrote.
	writeStatus(ctx context.Context, set *apps.ReplicaSet) (string, error)
}

// replicaSets are the form itself.
type replicaSets struct {
	env    runner.Env
	lister appslisters.ReplicaSetLister
}

func (replicaSets) kind() schema.GroupVersionKind {
	return apps.SchemeGroupVersion.WithKind("ReplicaSet")
}

func (replicaSets) resource() string { return "replicasets" }

func (r replicaSets) informer() cache.SharedIndexInformer {
	return r.env.Informers.Apps().V1().ReplicaSets().Informer()
}

func (r replicaSets) watch(loop *runner.Loop[string], changed func(old, new *apps.ReplicaSet)) error {
	return loop.Watch(r.informer(), runner.Handle(changed))
}

func (r replicaSets) get(namespace, name string) (*apps.ReplicaSet, error) {
	return r.lister.ReplicaSets(namespace).Get(name)
}

func (r replicaSets) list(namespace string) ([]*apps.ReplicaSet, error) {
	return r.lister.ReplicaSets(namespace).List(labels.Everything())
}

func (r replicaSets) selecting(pod *v1.Pod) []*apps.ReplicaSet {
	sets, err := r.lister.GetPodReplicaSets(pod)
	if err != nil {
		return nil // no controller selects it
	}
	return sets
}

func (r replicaSets) live(ctx context.Context, namespace, name string) (*apps.ReplicaSet, error) {
	return r.env.Client.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (r replicaSets) writeStatus(ctx context.Context, set *apps.ReplicaSet) (string, error) {
	written, err := r.env.Client.AppsV1().ReplicaSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return "", err
	}
	return written.ResourceVersion, nil
}

// replicationControllers are what came before ReplicaSets
// (https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/).
type replicationControllers struct {
	env    runner.Env
	lister corelisters.ReplicationControllerLister
}

func (replicationControllers) kind() schema.GroupVersionKind {
	return v1.SchemeGroupVersion.WithKind("ReplicationController")
}

func (replicationControllers) resource() string { return "replicationcontrollers" }

func (r replicationControllers) informer() cache.SharedIndexInformer {
	return r.env.Informers.Core().V1().ReplicationControllers().Informer()
}

func (r replicationControllers) watch(loop *runner.Loop[string], changed func(old, new *apps.ReplicaSet)) error {
	return loop.Watch(r.informer(),
		runner.Handle(func(old, new *v1.ReplicationController) { changed(asSet(old), asSet(new)) }))
}

func (r replicationControllers) get(namespace, name string) (*apps.ReplicaSet, error) {
	rc, err := r.lister.ReplicationControllers(namespace).Get(name)
	return asSet(rc), err
}

func (r replicationControllers) list(namespace string) ([]*apps.ReplicaSet, error) {
	all, err := r.lister.ReplicationControllers(namespace).List(labels.Everything())
	return asSets(all), err
}

func (r replicationControllers) selecting(pod *v1.Pod) []*apps.ReplicaSet {
	all, err := r.lister.GetPodControllers(pod)
	if err != nil {
		return nil // no controller selects it
	}
	return asSets(all)
}

func (r replicationControllers) live(ctx context.Context, namespace, name string) (*apps.ReplicaSet, error) {
	rc, err := r.env.Client.CoreV1().ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return asSet(rc), nil
}

func (r replicationControllers) writeStatus(ctx context.Context, set *apps.ReplicaSet) (string, error) {
	s := &set.Status
	rc := &v1.ReplicationController{
		ObjectMeta: set.ObjectMeta,
		// The spec is not written here, but it is checked.
		Spec: v1.ReplicationControllerSpec{
			Replicas: set.Spec.Replicas, MinReadySeconds: set.Spec.MinReadySeconds,
			Selector: set.Spec.Selector.MatchLabels, Template: &set.Spec.Template,
		},
		Status: v1.ReplicationControllerStatus{
			Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
			AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
		},
	}
	for _, c := range s.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, v1.ReplicationControllerCondition{
			Type: v1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	written, err := r.env.Client.CoreV1().ReplicationControllers(set.Namespace).UpdateStatus(ctx, rc,
		metav1.UpdateOptions{})
	if err != nil {
		return "", err
	}
	return written.ResourceVersion, nil
}

func asSets(all []*v1.ReplicationController) []*apps.ReplicaSet {
	sets := make([]*apps.ReplicaSet, len(all))
	for i, rc := range all {
		sets[i] = asSet(rc)
	}
	return sets
}

// asSet shares the memory of rc. It tells its true kind, for events about it.
func asSet(rc *v1.ReplicationController) *apps.ReplicaSet {
	if rc == nil {
		return nil
	}
	set := &apps.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"},
		ObjectMeta: rc.ObjectMeta,
		Spec: apps.ReplicaSetSpec{
			Replicas: rc.Spec.Replicas, MinReadySeconds: rc.Spec.MinReadySeconds,
			Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
		},
		Status: apps.ReplicaSetStatus{
			Replicas: rc.Status.Replicas, FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas:     rc.Status.ReadyReplicas,
			AvailableReplicas: rc.Status.AvailableReplicas, ObservedGeneration: rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, apps.ReplicaSetCondition{
			Type: apps.ReplicaSetConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		})
	}
	return set
}
