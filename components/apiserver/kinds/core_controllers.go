package kinds

import (
	"context"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var controllerParts = parts[*corev1.ReplicationController, corev1.ReplicationControllerSpec, corev1.ReplicationControllerStatus]{
	spec:   func(r *corev1.ReplicationController) *corev1.ReplicationControllerSpec { return &r.Spec },
	status: func(r *corev1.ReplicationController) *corev1.ReplicationControllerStatus { return &r.Status },
}

func replicationControllers() *Kind {
	return define(row[*corev1.ReplicationController]{
		Name: "ReplicationController", Resource: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: []string{"all"},
		Prefix:  "controllers",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultController,
		Strategy: strategy[*corev1.ReplicationController]{
			PrepareCreate:       controllerParts.create,
			PrepareUpdate:       controllerParts.update,
			Validate:            core.ValidateController,
			ValidateUpdate:      func(new, _ *corev1.ReplicationController) field.ErrorList { return core.ValidateController(new) },
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.ReplicationController]{
			PrepareUpdate: controllerParts.statusUpdate,
			Reset:         []string{"spec"},
		},
		Scale: &scale[*corev1.ReplicationController]{
			Get: func(r *corev1.ReplicationController) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
				spec, status := scaleOf(r.Spec.Replicas, r.Status.Replicas, nil)
				status.Selector = labels.SelectorFromSet(r.Spec.Selector).String()
				return spec, status
			},
			Set:  func(r *corev1.ReplicationController, n int32) { r.Spec.Replicas = &n },
			Path: "spec.replicas",
		},
		Columns: core.ControllerColumns(),
		Row:     core.ControllerRow,
		Fields: map[string]func(*corev1.ReplicationController) string{
			"status.replicas": func(r *corev1.ReplicationController) string { return strconv.Itoa(int(r.Status.Replicas)) },
		},
	})
}

func podTemplates() *Kind {
	return define(row[*corev1.PodTemplate]{
		Name: "PodTemplate", Resource: "podtemplates",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultPodTemplate,
		Strategy: strategy[*corev1.PodTemplate]{
			PrepareCreate: func(_ context.Context, t *corev1.PodTemplate) { t.Generation = 1 },
			PrepareUpdate: func(_ context.Context, new, old *corev1.PodTemplate) {
				if !apiequality.Semantic.DeepEqual(new.Template, old.Template) {
					new.Generation = old.Generation + 1
				}
			},
			Validate:            core.ValidatePodTemplate,
			ValidateUpdate:      func(new, _ *corev1.PodTemplate) field.ErrorList { return core.ValidatePodTemplate(new) },
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: core.PodTemplateColumns(),
		Row:     core.PodTemplateRow,
	})
}
