package apiserver

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// forbidPrivileged makes privileged containers invalid, as a server without --allow-privileged has it.
func forbidPrivileged(kind *kinds.Kind) {
	strategy := &kind.Strategy
	if validate := strategy.Validate; validate != nil {
		strategy.Validate = func(ctx context.Context, obj kinds.Object) field.ErrorList {
			return withoutPrivilege(validate(ctx, obj), obj)
		}
	}
	if validate := strategy.ValidateUpdate; validate != nil {
		strategy.ValidateUpdate = func(ctx context.Context, new, old kinds.Object) field.ErrorList {
			return withoutPrivilege(validate(ctx, new, old), new)
		}
	}
}

// withoutPrivilege adds to errs what obj may not ask for, each beside what is said of the same place.
func withoutPrivilege(errs field.ErrorList, obj kinds.Object) field.ErrorList {
	spec, at := podSpecOf(obj)
	if spec == nil {
		return errs
	}
	for _, e := range privileged(spec, at) {
		place := strings.TrimSuffix(e.Field, ".privileged")
		i := slices.IndexFunc(errs, func(other *field.Error) bool { return strings.HasPrefix(other.Field, place+".") })
		if i < 0 { // what is said of changes as a whole comes later
			i = slices.IndexFunc(errs, func(other *field.Error) bool { return strings.HasPrefix(at.String()+".", other.Field+".") })
		}
		if i < 0 {
			i = len(errs)
		}
		errs = slices.Insert(errs, i, e)
	}
	if hostProcess(spec) {
		i := slices.IndexFunc(errs, func(e *field.Error) bool { return e.Field == at.Child("hostNetwork").String() })
		if i < 0 {
			i = len(errs) - 1
		}
		errs = slices.Insert(errs, i+1, field.Forbidden(at, "hostProcess containers are disallowed by cluster policy"))
	}
	return errs
}

// hostProcess tells that a container runs as a process of a Windows host.
func hostProcess(spec *corev1.PodSpec) bool {
	asks := func(o *corev1.WindowsSecurityContextOptions) bool {
		return o != nil && o.HostProcess != nil && *o.HostProcess
	}
	whole := spec.SecurityContext != nil && asks(spec.SecurityContext.WindowsOptions)
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := containers[i].SecurityContext
			if c != nil && c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil {
				if *c.WindowsOptions.HostProcess {
					return true
				}
			} else if whole {
				return true
			}
		}
	}
	return false
}

// podSpecOf finds the pod in an object that is or makes pods.
func podSpecOf(obj kinds.Object) (*corev1.PodSpec, *field.Path) {
	template := func(s *corev1.PodSpec) (*corev1.PodSpec, *field.Path) {
		return s, field.NewPath("spec", "template", "spec")
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, field.NewPath("spec")
	case *corev1.PodTemplate:
		return &o.Template.Spec, field.NewPath("template", "spec")
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return template(&o.Spec.Template.Spec)
		}
	case *appsv1.Deployment:
		return template(&o.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		return template(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		return template(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		return template(&o.Spec.Template.Spec)
	case *batchv1.Job:
		return template(&o.Spec.Template.Spec)
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, field.NewPath("spec", "jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}

func privileged(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	of := func(name string, containers []corev1.Container) {
		for i := range containers {
			if c := containers[i].SecurityContext; c != nil && c.Privileged != nil && *c.Privileged {
				errs = append(errs, field.Forbidden(at.Child(name).Index(i).Child("securityContext", "privileged"), "disallowed by cluster policy"))
			}
		}
	}
	of("containers", spec.Containers)
	of("initContainers", spec.InitContainers)
	return errs
}
