package scheduler

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// watchWorkloads watches the owners by which pods are grouped. Kinds that the API server does not serve have no
// objects.
func (s *Scheduler) watchWorkloads(f *feeds, served sets.Set[string]) {
	if served.Has("services") {
		workload(s, f, f.Core().V1().Services().Informer(), s.setService, s.removeService)
	}
	if served.Has("replicationcontrollers") {
		owner(s, f, f.Core().V1().ReplicationControllers().Informer(), "ReplicationController",
			func(rc *v1.ReplicationController) labels.Selector { return labels.SelectorFromSet(rc.Spec.Selector) })
	}
	if served.Has("replicasets") {
		owner(s, f, f.Apps().V1().ReplicaSets().Informer(), "ReplicaSet",
			func(rs *appsv1.ReplicaSet) labels.Selector { return parsed(rs.Spec.Selector) })
	}
	if served.Has("statefulsets") {
		owner(s, f, f.Apps().V1().StatefulSets().Informer(), "StatefulSet",
			func(ss *appsv1.StatefulSet) labels.Selector { return parsed(ss.Spec.Selector) })
	}
	if served.Has("poddisruptionbudgets") {
		workload(s, f, f.Policy().V1().PodDisruptionBudgets().Informer(),
			func(b *policyv1.PodDisruptionBudget) { s.snapshot.SetBudget(b) },
			func(b *policyv1.PodDisruptionBudget) { s.snapshot.RemoveBudget(nameOf(b)) })
	}
}

// served returns the resources of some group versions; it waits for an API server that does not answer.
func (s *Scheduler) served(ctx context.Context, versions ...string) (sets.Set[string], error) {
	const pause = 50 * time.Millisecond
	found := sets.New[string]()
	said := ""
	for _, version := range versions {
		err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
			list, err := s.client.Discovery().ServerResourcesForGroupVersion(version)
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			if err != nil {
				if err.Error() != said { // once is enough
					klog.FromContext(ctx).Info("Waiting for the API server", "err", err)
					said = err.Error()
				}
				return false, nil
			}
			for i := range list.APIResources {
				found.Insert(list.APIResources[i].Name)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// workload feeds objects that have no events for the queue.
func workload[T any](s *Scheduler, f *feeds, informer cache.SharedIndexInformer, set, remove func(T)) {
	locked := func(do func(T)) func(T) {
		return func(obj T) {
			s.state.change(func() {
				do(obj)
			})
		}
	}
	feed(f, informer, locked(set), func(_, now T) { locked(set)(now) }, locked(remove))
}

func owner[T metav1.Object](s *Scheduler, f *feeds, informer cache.SharedIndexInformer, kind string,
	selector func(T) labels.Selector) {
	key := func(obj T) snapshot.Owner {
		return snapshot.Owner{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	workload(s, f, informer,
		func(obj T) { s.snapshot.SetOwner(key(obj), selector(obj)) },
		func(obj T) { s.snapshot.RemoveOwner(key(obj)) })
}

func parsed(selector *metav1.LabelSelector) labels.Selector {
	p, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Nothing() // the API server admits none such
	}
	return p
}

func (s *Scheduler) setService(service *v1.Service) {
	s.snapshot.SetService(nameOf(service), service.Spec.Selector)
}

func (s *Scheduler) removeService(service *v1.Service) { s.snapshot.RemoveService(nameOf(service)) }

func nameOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
