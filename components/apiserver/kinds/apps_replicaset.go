package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/apps"
)

var replicaSetParts = parts[*appsv1.ReplicaSet, appsv1.ReplicaSetSpec, appsv1.ReplicaSetStatus]{
	spec:   func(r *appsv1.ReplicaSet) *appsv1.ReplicaSetSpec { return &r.Spec },
	status: func(r *appsv1.ReplicaSet) *appsv1.ReplicaSetStatus { return &r.Status },
}

var replicaSetTemplate = templated[*appsv1.ReplicaSet]{
	template: func(obj *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
	naming:   true,
}

func replicaSets(deps Deps) *Kind {
	rules := apps.Rules{Pods: deps.podRules()}
	return define(row[*appsv1.ReplicaSet]{
		Name: "ReplicaSet", Resource: "replicasets", ShortNames: []string{"rs"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: apps.DefaultReplicaSet,
		Former: []Version{
			formerTwin[*appsv1beta2.ReplicaSet](appsv1beta2.SchemeGroupVersion, apps.DefaultReplicaSet),
			formerTwin[*extensionsv1beta1.ReplicaSet](extensionsv1beta1.SchemeGroupVersion, apps.DefaultReplicaSetExtensions),
		},
		Strategy: strategy[*appsv1.ReplicaSet]{
			PrepareCreate:       replicaSetTemplate.create(replicaSetParts.create),
			PrepareUpdate:       replicaSetTemplate.update(replicaSetParts.update),
			Validate:            rules.ValidateReplicaSet,
			ValidateUpdate:      rules.ValidateReplicaSetUpdate,
			Warnings:            replicaSetTemplate.warnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*appsv1.ReplicaSet]{
			PrepareUpdate:  replicaSetParts.statusUpdate,
			ValidateUpdate: apps.ValidateReplicaSetStatus,
			Reset:          []string{"spec"},
		},
		Scale: &scale[*appsv1.ReplicaSet]{
			Get: func(r *appsv1.ReplicaSet) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
				return scaleOf(r.Spec.Replicas, r.Status.Replicas, r.Spec.Selector)
			},
			Set:  func(r *appsv1.ReplicaSet, n int32) { r.Spec.Replicas = &n },
			Path: "spec.replicas",
		},
		Columns: apps.ReplicaSetColumns(),
		Row:     apps.ReplicaSetRow,
	})
}
