package apps

import (
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// DefaultDeployment sets the defaults of a deployment.
func DefaultDeployment(d *appsv1.Deployment) {
	podspec.DefaultTemplate(&d.Spec.Template)
	if n, err := rollbackTo(d); err == nil {
		annotate(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, n)
	}
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

// CheckDeployment tells of an annotation of the revision to go back to that is no number.
func CheckDeployment(d *appsv1.Deployment) error {
	_, err := rollbackTo(d)
	return err
}

// rollbackTo is the revision to go back to, "" for none. It lives in an annotation since the field is gone from the API.
func rollbackTo(d *appsv1.Deployment) (string, error) {
	text := d.Annotations[appsv1.DeprecatedRollbackTo]
	if text == "" {
		return "", nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", appsv1.DeprecatedRollbackTo, text, err)
	}
	return strconv.FormatInt(n, 10), nil
}

// KeepRollback gives a deployment the revision to go back to of another.
func KeepRollback(new, old *appsv1.Deployment) {
	annotate(&new.ObjectMeta, appsv1.DeprecatedRollbackTo, old.Annotations[appsv1.DeprecatedRollbackTo])
}

// annotate sets an annotation, or removes it if it has no value.
func annotate(meta *metav1.ObjectMeta, name, value string) {
	if had, ok := meta.Annotations[name]; had == value && ok == (value != "") {
		return
	}
	meta.Annotations = maps.Clone(meta.Annotations)
	if value == "" {
		delete(meta.Annotations, name)
		return
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[name] = value
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
