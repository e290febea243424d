package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// DefaultDeployment sets the defaults of a deployment.
func DefaultDeployment(d *appsv1.Deployment) {
	podspec.DefaultTemplate(&d.Spec.Template)
	setDefault(&d.Spec.Replicas, 1)
	setDefault(&d.Spec.RevisionHistoryLimit, 10)
	setDefault(&d.Spec.ProgressDeadlineSeconds, 600)
	s := &d.Spec.Strategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		setDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setDefault(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

// DefaultReplicaSet sets the defaults of a replica set.
func DefaultReplicaSet(r *appsv1.ReplicaSet) {
	podspec.DefaultTemplate(&r.Spec.Template)
	setDefault(&r.Spec.Replicas, 1)
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
