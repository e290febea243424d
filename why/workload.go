package why

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func (s *Snapshot) deployment(d *appsv1.Deployment) (State, []Cause) {
	var causes []Cause
	state := Pending
	want := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.ObservedGeneration < d.Generation {
		causes = append(causes, behind(d.Status.ObservedGeneration, d.Generation))
	}
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse:
			state = Failed
			causes = append(causes, Cause{Reason: or(c.Reason, "NotProgressing"), Message: c.Message})
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			causes = append(causes, notCreated(c.Message))
		}
	}
	rolled := d.Status.UpdatedReplicas >= want && d.Status.Replicas == d.Status.UpdatedReplicas
	if d.Spec.Paused && !rolled {
		causes = append(causes, Cause{Reason: "Paused", Message: "It is paused, so that its new template is not rolled out.",
			Help: "kubectl rollout resume deployment " + d.Name})
	}
	causes = append(causes, s.podCauses(func(p *corev1.Pod) bool { return s.inDeployment(p, d) })...)
	if len(causes) > 0 {
		return state, causes
	}
	if d.Status.AvailableReplicas >= want && rolled {
		return Ready, nil
	}
	return Pending, []Cause{rollout(d.Status.UpdatedReplicas, d.Status.AvailableReplicas, want, d.Spec.MinReadySeconds)}
}

// rollout is a rollout that goes on.
func rollout(updated, available, want, minReady int32) Cause {
	c := Cause{Reason: "RollingOut", Message: fmt.Sprintf("%d of %d replicas are updated, %d available.", updated, want,
		available)}
	if minReady > 0 {
		c.Help = fmt.Sprintf("A pod counts as available after it was ready for %d s (minReadySeconds).", minReady)
	}
	return c
}

// inDeployment tells whether a pod belongs to a replica set of a Deployment.
func (s *Snapshot) inDeployment(p *corev1.Pod, d *appsv1.Deployment) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return false
	}
	for i := range s.ReplicaSets {
		if s.ReplicaSets[i].UID == owner.UID {
			return metav1.IsControlledBy(&s.ReplicaSets[i], d)
		}
	}
	return false
}

// podCauses are the causes of the pods that are not as they should be, equal ones counted together.
func (s *Snapshot) podCauses(mine func(*corev1.Pod) bool) []Cause {
	var causes []Cause
	for i := range s.Pods {
		p := &s.Pods[i]
		if !mine(p) || p.DeletionTimestamp != nil {
			continue
		}
		state, of := s.pod(p)
		if state == Ready || state == Complete {
			continue
		}
		for _, c := range of {
			if c.Object == nil {
				c = about("Pod", p, c)
			}
			causes = append(causes, c)
		}
	}
	return unite(causes)
}

func controlledBy(owner types.UID) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		ref := metav1.GetControllerOf(p)
		return ref != nil && ref.UID == owner
	}
}

func (s *Snapshot) replicaSet(rs *appsv1.ReplicaSet) (State, []Cause) {
	var causes []Cause
	for _, c := range rs.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			causes = append(causes, notCreated(c.Message))
		}
	}
	return s.replicas(rs.UID, causes, rs.Status.ObservedGeneration, rs.Generation, rs.Status.AvailableReplicas,
		ptr.Deref(rs.Spec.Replicas, 1), rs.Spec.MinReadySeconds)
}

func (s *Snapshot) replicationController(rc *corev1.ReplicationController) (State, []Cause) {
	var causes []Cause
	for _, c := range rc.Status.Conditions {
		if c.Type == corev1.ReplicationControllerReplicaFailure && c.Status == corev1.ConditionTrue {
			causes = append(causes, notCreated(c.Message))
		}
	}
	return s.replicas(rc.UID, causes, rc.Status.ObservedGeneration, rc.Generation, rc.Status.AvailableReplicas,
		ptr.Deref(rc.Spec.Replicas, 1), rc.Spec.MinReadySeconds)
}

func (s *Snapshot) replicas(owner types.UID, causes []Cause, observed, generation int64, available, want,
	minReady int32) (State, []Cause) {
	if observed < generation {
		causes = append(causes, behind(observed, generation))
	}
	causes = append(causes, s.podCauses(controlledBy(owner))...)
	if len(causes) == 0 && available >= want {
		return Ready, nil
	}
	if len(causes) == 0 {
		causes = []Cause{rollout(want, available, want, minReady)}
	}
	return Pending, causes
}

func (s *Snapshot) statefulSet(set *appsv1.StatefulSet) (State, []Cause) {
	var causes []Cause
	want := ptr.Deref(set.Spec.Replicas, 1)
	if set.Status.ObservedGeneration < set.Generation {
		causes = append(causes, behind(set.Status.ObservedGeneration, set.Generation))
	}
	of := s.podCauses(controlledBy(set.UID))
	if e := s.lastEvent(set.UID, "FailedCreate"); e != nil && set.Status.Replicas < want {
		of = append(of, notCreated(e.Message))
	}
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement && len(of) > 0 && set.Status.Replicas < want {
		of = []Cause{{Reason: "WaitsForPredecessor", Message: fmt.Sprintf(
			"%d of %d pods exist: each is created when those before it are ready.", set.Status.Replicas, want), Causes: of}}
	}
	if causes = append(causes, of...); len(causes) > 0 {
		return Pending, causes
	}
	partition := int32(0)
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil {
		partition = ptr.Deref(u.Partition, 0)
	}
	updated := set.Status.CurrentRevision == set.Status.UpdateRevision ||
		set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || set.Status.UpdatedReplicas >= want-partition
	if updated && set.Status.AvailableReplicas >= want {
		return Ready, nil
	}
	return Pending, []Cause{rollout(set.Status.UpdatedReplicas, set.Status.AvailableReplicas, want,
		set.Spec.MinReadySeconds)}
}

func (s *Snapshot) daemonSet(set *appsv1.DaemonSet) (State, []Cause) {
	var causes []Cause
	if set.Status.ObservedGeneration < set.Generation {
		causes = append(causes, behind(set.Status.ObservedGeneration, set.Generation))
	}
	causes = append(causes, s.podCauses(controlledBy(set.UID))...)
	want := set.Status.DesiredNumberScheduled
	if e := s.lastEvent(set.UID, "FailedCreate"); e != nil && set.Status.CurrentNumberScheduled < want {
		causes = append(causes, notCreated(e.Message))
	}
	switch {
	case len(causes) > 0:
		return Pending, causes
	case want == 0 && s.known("Node") && len(s.Nodes) > 0:
		return Ready, []Cause{{Reason: "NoMatchingNode", Message: fmt.Sprintf("None of %d nodes is one that it runs on.",
			len(s.Nodes)), Help: "See its node selector, affinity and tolerations: " + selectorText(set) + "."}}
	}
	updated := set.Status.UpdatedNumberScheduled
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		updated = want
	}
	if updated >= want && set.Status.NumberAvailable >= want {
		return Ready, nil
	}
	return Pending, []Cause{rollout(updated, set.Status.NumberAvailable, want, set.Spec.MinReadySeconds)}
}

func selectorText(set *appsv1.DaemonSet) string {
	if len(set.Spec.Template.Spec.NodeSelector) == 0 {
		return "it has no node selector"
	}
	var terms []string
	for key, value := range set.Spec.Template.Spec.NodeSelector {
		terms = append(terms, key+"="+value)
	}
	return strings.Join(sorted(terms), ",")
}
