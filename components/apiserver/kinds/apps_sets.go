package kinds

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/apps"
)

var daemonSetParts = parts[*appsv1.DaemonSet, appsv1.DaemonSetSpec, appsv1.DaemonSetStatus]{
	spec:   func(d *appsv1.DaemonSet) *appsv1.DaemonSetSpec { return &d.Spec },
	status: func(d *appsv1.DaemonSet) *appsv1.DaemonSetStatus { return &d.Status },
}

var daemonSetTemplate = templated[*appsv1.DaemonSet]{
	template: func(obj *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
	changed: func(new, old *appsv1.DaemonSet) bool {
		return apps.TemplateGeneration(new) != apps.TemplateGeneration(old)
	},
}

func daemonSets(deps Deps) *Kind {
	rules := apps.Rules{Pods: deps.podRules()}
	return define(row[*appsv1.DaemonSet]{
		Name: "DaemonSet", Resource: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: apps.DefaultDaemonSet,
		Former: []Version{
			formerTwin[*appsv1beta2.DaemonSet](appsv1beta2.SchemeGroupVersion, apps.DefaultDaemonSet),
			former(extensionsv1beta1.SchemeGroupVersion, apps.DaemonSetFromExtensions, apps.DefaultDaemonSetExtensions),
		},
		FieldAnnotations: []string{appsv1.DeprecatedTemplateGeneration},
		Check:            apps.CheckDaemonSet,
		Strategy: strategy[*appsv1.DaemonSet]{
			PrepareCreate: daemonSetTemplate.create(func(ctx context.Context, d *appsv1.DaemonSet) {
				daemonSetParts.create(ctx, d)
				if apps.TemplateGeneration(d) < 1 {
					apps.SetTemplateGeneration(d, 1)
				}
			}),
			PrepareUpdate: daemonSetTemplate.update(func(ctx context.Context, new, old *appsv1.DaemonSet) {
				daemonSetParts.update(ctx, new, old)
				n := apps.TemplateGeneration(old)
				if !apiequality.Semantic.DeepEqual(new.Spec.Template, old.Spec.Template) {
					n++
				}
				if apps.TemplateGeneration(new) != n {
					apps.SetTemplateGeneration(new, n)
				}
			}),
			Validate:            rules.ValidateDaemonSet,
			ValidateUpdate:      rules.ValidateDaemonSetUpdate,
			Warnings:            daemonSetTemplate.warnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.DaemonSet]{
			PrepareUpdate: func(ctx context.Context, new, old *appsv1.DaemonSet) {
				daemonSetParts.statusUpdate(ctx, new, old)
				apps.SetTemplateGeneration(new, apps.TemplateGeneration(old)) // a part of the spec, though an annotation
			},
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

var statefulSetTemplate = templated[*appsv1.StatefulSet]{
	template: func(obj *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
}

func statefulSets(deps Deps) *Kind {
	rules := apps.Rules{Pods: deps.podRules()}
	return define(row[*appsv1.StatefulSet]{
		Name: "StatefulSet", Resource: "statefulsets", ShortNames: []string{"sts"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: apps.DefaultStatefulSet,
		Former: []Version{
			formerTwin[*appsv1beta2.StatefulSet](appsv1beta2.SchemeGroupVersion, apps.DefaultStatefulSet),
			former(appsv1beta1.SchemeGroupVersion, apps.StatefulSetFromV1beta1, apps.DefaultStatefulSetV1beta1),
		},
		Strategy: strategy[*appsv1.StatefulSet]{
			PrepareCreate: statefulSetTemplate.create(func(ctx context.Context, s *appsv1.StatefulSet) {
				apps.DropDisabled(s, nil)
				statefulSetParts.create(ctx, s)
			}),
			PrepareUpdate: statefulSetTemplate.update(func(ctx context.Context, new, old *appsv1.StatefulSet) {
				apps.DropDisabled(new, old)
				statefulSetParts.update(ctx, new, old)
			}),
			Validate:       rules.ValidateStatefulSet,
			ValidateUpdate: rules.ValidateStatefulSetUpdate,
			Warnings: func(new, old *appsv1.StatefulSet) []string {
				return append(statefulSetTemplate.warnings(new, old), apps.StatefulSetWarnings(new, old)...)
			},
			ValidateName:        validation.NameIsDNSLabel,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.StatefulSet]{
			PrepareUpdate: statefulSetParts.statusUpdate,
			ValidateAmong: func(new, old *appsv1.StatefulSet, meta MetaErrors) field.ErrorList {
				return slices.Concat(apps.ValidateStatefulSetStatus(new), meta.Change, apps.ValidateStatefulSetStatusChange(new, old))
			},
			Reset: []string{"spec"},
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
		Former: []Version{
			formerTwin[*appsv1beta2.ControllerRevision, *appsv1.ControllerRevision](appsv1beta2.SchemeGroupVersion, nil),
			formerTwin[*appsv1beta1.ControllerRevision, *appsv1.ControllerRevision](appsv1beta1.SchemeGroupVersion, nil),
		},
		Strategy: strategy[*appsv1.ControllerRevision]{
			Meta:                MetaAll,
			Validate:            apps.ValidateRevision,
			ValidateUpdate:      apps.ValidateRevisionUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: apps.RevisionColumns(),
		Row:     apps.RevisionRow,
	})
}
