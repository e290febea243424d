package apps

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// The versions before v1 select by the labels of the template, and have these themselves, where they say nothing else.
// What v1beta1 and extensions had besides, v1 has as annotations.

// fromTemplate sets the selector and the labels of an object to those of its template.
func fromTemplate(meta *metav1.ObjectMeta, selector **metav1.LabelSelector, labels map[string]string) {
	if labels == nil {
		return
	}
	setDefault(selector, metav1.LabelSelector{MatchLabels: labels})
	if len(meta.Labels) == 0 {
		meta.Labels = labels
	}
}

// DeploymentFromV1beta1 converts a deployment of apps/v1beta1, and of extensions/v1beta1.
func DeploymentFromV1beta1(d *appsv1beta1.Deployment) *appsv1.Deployment {
	s := &d.Spec
	out := &appsv1.Deployment{ObjectMeta: d.ObjectMeta, Status: *twin.Of[appsv1.DeploymentStatus](&d.Status),
		Spec: appsv1.DeploymentSpec{
			Replicas: s.Replicas, Selector: s.Selector, Template: s.Template,
			Strategy:        *twin.Of[appsv1.DeploymentStrategy](&s.Strategy),
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit, Paused: s.Paused,
			ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		}}
	if s.RollbackTo == nil {
		annotate(&out.ObjectMeta, appsv1.DeprecatedRollbackTo, "")
	} else {
		annotate(&out.ObjectMeta, appsv1.DeprecatedRollbackTo, strconv.FormatInt(s.RollbackTo.Revision, 10))
	}
	return out
}

// DefaultDeploymentV1beta1 sets the defaults of a deployment that lies in the store as of apps/v1beta1.
func DefaultDeploymentV1beta1(d *appsv1.Deployment) {
	fromTemplate(&d.ObjectMeta, &d.Spec.Selector, d.Spec.Template.Labels)
	setDefault(&d.Spec.RevisionHistoryLimit, 2)
	DefaultDeployment(d)
}

// DefaultDeploymentExtensions sets the defaults of a deployment that lies in the store as of extensions/v1beta1: no
// limits, and one pod at a time.
func DefaultDeploymentExtensions(d *appsv1.Deployment) {
	fromTemplate(&d.ObjectMeta, &d.Spec.Selector, d.Spec.Template.Labels)
	setDefault(&d.Spec.RevisionHistoryLimit, math.MaxInt32)
	setDefault(&d.Spec.ProgressDeadlineSeconds, math.MaxInt32)
	u := &d.Spec.Strategy
	if u.Type == "" || u.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setDefault(&u.RollingUpdate, appsv1.RollingUpdateDeployment{})
	}
	if u.RollingUpdate != nil {
		setDefault(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		setDefault(&u.RollingUpdate.MaxSurge, intstr.FromInt32(1))
	}
	DefaultDeployment(d)
}

// DefaultReplicaSetExtensions sets the defaults of a replica set that lies in the store as of extensions/v1beta1.
func DefaultReplicaSetExtensions(r *appsv1.ReplicaSet) {
	fromTemplate(&r.ObjectMeta, &r.Spec.Selector, r.Spec.Template.Labels)
	DefaultReplicaSet(r)
}

// DaemonSetFromExtensions converts a daemon set of extensions/v1beta1.
func DaemonSetFromExtensions(d *extensionsv1beta1.DaemonSet) *appsv1.DaemonSet {
	s := &d.Spec
	out := &appsv1.DaemonSet{ObjectMeta: d.ObjectMeta, Status: *twin.Of[appsv1.DaemonSetStatus](&d.Status),
		Spec: appsv1.DaemonSetSpec{
			Selector: s.Selector, Template: s.Template,
			UpdateStrategy:  *twin.Of[appsv1.DaemonSetUpdateStrategy](&s.UpdateStrategy),
			MinReadySeconds: s.MinReadySeconds, RevisionHistoryLimit: s.RevisionHistoryLimit,
		}}
	SetTemplateGeneration(out, s.TemplateGeneration)
	return out
}

// DefaultDaemonSetExtensions sets the defaults of a daemon set that lies in the store as of extensions/v1beta1.
func DefaultDaemonSetExtensions(d *appsv1.DaemonSet) {
	fromTemplate(&d.ObjectMeta, &d.Spec.Selector, d.Spec.Template.Labels)
	if u := &d.Spec.UpdateStrategy; u.Type == "" {
		u.Type = appsv1.OnDeleteDaemonSetStrategyType
	}
	DefaultDaemonSet(d)
}

// StatefulSetFromV1beta1 converts a stateful set of apps/v1beta1.
func StatefulSetFromV1beta1(s *appsv1beta1.StatefulSet) *appsv1.StatefulSet {
	from := &s.Status
	out := &appsv1.StatefulSet{ObjectMeta: s.ObjectMeta, Spec: *twin.Of[appsv1.StatefulSetSpec](&s.Spec),
		Status: appsv1.StatefulSetStatus{
			Replicas: from.Replicas, ReadyReplicas: from.ReadyReplicas, CurrentReplicas: from.CurrentReplicas,
			UpdatedReplicas: from.UpdatedReplicas,
			CurrentRevision: from.CurrentRevision, UpdateRevision: from.UpdateRevision,
			CollisionCount:    from.CollisionCount,
			Conditions:        twin.List[appsv1.StatefulSetCondition](from.Conditions),
			AvailableReplicas: from.AvailableReplicas,
		}}
	if from.ObservedGeneration != nil {
		out.Status.ObservedGeneration = *from.ObservedGeneration
	}
	return out
}

// DefaultStatefulSetV1beta1 sets the defaults of a stateful set that lies in the store as of apps/v1beta1.
func DefaultStatefulSetV1beta1(s *appsv1.StatefulSet) {
	fromTemplate(&s.ObjectMeta, &s.Spec.Selector, s.Spec.Template.Labels)
	if u := &s.Spec.UpdateStrategy; u.Type == "" {
		u.Type = appsv1.OnDeleteStatefulSetStrategyType
	}
	DefaultStatefulSet(s)
}
