package apiserver

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// forbidPrivileged makes the creation of privileged containers invalid, as a server without --allow-privileged has it.
func forbidPrivileged(kind *kinds.Kind) {
	validate := kind.Strategy.Validate
	kind.Strategy.Validate = func(ctx context.Context, obj kinds.Object) field.ErrorList {
		var errs field.ErrorList
		if validate != nil {
			errs = validate(ctx, obj)
		}
		if spec, at := podSpecOf(obj); spec != nil {
			errs = append(errs, privileged(spec, at)...)
		}
		return errs
	}
}

// podSpecOf finds the pod in an object that is or makes pods.
func podSpecOf(obj kinds.Object) (*corev1.PodSpec, *field.Path) {
	template := field.NewPath("spec", "template", "spec")
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, field.NewPath("spec")
	case *corev1.PodTemplate:
		return &o.Template.Spec, field.NewPath("template", "spec")
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return &o.Spec.Template.Spec, template
		}
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, template
	case *batchv1.Job:
		return &o.Spec.Template.Spec, template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, field.NewPath("spec", "jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}

func privileged(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	for name, containers := range map[string][]corev1.Container{"initContainers": spec.InitContainers, "containers": spec.Containers} {
		for i := range containers {
			if c := containers[i].SecurityContext; c != nil && c.Privileged != nil && *c.Privileged {
				errs = append(errs, field.Forbidden(at.Child(name).Index(i).Child("securityContext", "privileged"), "disallowed by cluster policy"))
			}
		}
	}
	return errs
}
