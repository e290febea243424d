package kinds

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/apps"
)

var daemonSetParts = parts[*appsv1.DaemonSet, appsv1.DaemonSetSpec, appsv1.DaemonSetStatus]{
	spec:   func(d *appsv1.DaemonSet) *appsv1.DaemonSetSpec { return &d.Spec },
	status: func(d *appsv1.DaemonSet) *appsv1.DaemonSetStatus { return &d.Status },
}

func daemonSets() *Kind {
	return define(row[*appsv1.DaemonSet]{
		Name: "DaemonSet", Resource: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: apps.DefaultDaemonSet,
		Strategy: strategy[*appsv1.DaemonSet]{
			PrepareCreate: func(ctx context.Context, d *appsv1.DaemonSet) {
				daemonSetParts.create(ctx, d)
				if apps.TemplateGeneration(d) < 1 {
					apps.SetTemplateGeneration(d, 1)
				}
			},
			PrepareUpdate: func(ctx context.Context, new, old *appsv1.DaemonSet) {
				daemonSetParts.update(ctx, new, old)
				n := apps.TemplateGeneration(old)
				if !apiequality.Semantic.DeepEqual(new.Spec.Template, old.Spec.Template) {
					n++
				}
				if apps.TemplateGeneration(new) != n {
					apps.SetTemplateGeneration(new, n)
				}
			},
			Validate:            apps.ValidateDaemonSet,
			ValidateUpdate:      apps.ValidateDaemonSetUpdate,
			Warnings:            templateWarnings(func(d *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &d.Spec.Template }),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.DaemonSet]{
			PrepareUpdate:  daemonSetParts.statusUpdate,
			ValidateUpdate: apps.ValidateDaemonSetStatus,
			Reset:          []string{"spec"},
		},
		Columns: apps.DaemonSetColumns(),
		Row:     apps.DaemonSetRow,
	})
}

var statefulSetParts = parts[*appsv1.StatefulSet, appsv1.StatefulSetSpec, appsv1.StatefulSetStatus]{
	spec:   func(s *appsv1.StatefulSet) *appsv1.StatefulSetSpec { return &s.Spec },
	status: func(s *appsv1.StatefulSet) *appsv1.StatefulSetStatus { return &s.Status },
}

func statefulSets() *Kind {
	return define(row[*appsv1.StatefulSet]{
		Name: "StatefulSet", Resource: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: apps.DefaultStatefulSet,
		Strategy: strategy[*appsv1.StatefulSet]{
			PrepareCreate:       statefulSetParts.create,
			PrepareUpdate:       statefulSetParts.update,
			Validate:            apps.ValidateStatefulSet,
			ValidateUpdate:      apps.ValidateStatefulSetUpdate,
			Warnings:            templateWarnings(func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &s.Spec.Template }),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.StatefulSet]{
			PrepareUpdate:  statefulSetParts.statusUpdate,
			ValidateUpdate: apps.ValidateStatefulSetStatus,
			Reset:          []string{"spec"},
		},
		Scale: &scale[*appsv1.StatefulSet]{
			Get: func(s *appsv1.StatefulSet) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
				return scaleOf(s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector)
			},
			Set:  func(s *appsv1.StatefulSet, n int32) { s.Spec.Replicas = &n },
			Path: "spec.replicas",
		},
		Columns: apps.StatefulSetColumns(),
		Row:     apps.StatefulSetRow,
	})
}

func controllerRevisions() *Kind {
	return define(row[*appsv1.ControllerRevision]{
		Name: "ControllerRevision", Resource: "controllerrevisions",
		Hub: appsv1.SchemeGroupVersion,
		Strategy: strategy[*appsv1.ControllerRevision]{
			Validate:            apps.ValidateRevision,
			ValidateUpdate:      apps.ValidateRevisionUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: apps.RevisionColumns(),
		Row:     apps.RevisionRow,
	})
}
