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

var controllerTemplate = templated[*corev1.ReplicationController]{
	template: func(obj *corev1.ReplicationController) *corev1.PodTemplateSpec { return obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
	naming:   true,
}

// controllerWarnings tell of an update what was wrong with the template before: upstream takes the one for the other.
func controllerWarnings(new, old *corev1.ReplicationController) []string {
	if old == nil {
		return controllerTemplate.warnings(new, nil)
	}
	return controllerTemplate.warnings(old, new)
}

func replicationControllers(deps Deps) *Kind {
	rules := core.Rules{Pods: deps.podRules()}
	return define(row[*corev1.ReplicationController]{
		Name: "ReplicationController", Resource: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: []string{"all"},
		Prefix:  "controllers",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultController,
		Strategy: strategy[*corev1.ReplicationController]{
			PrepareCreate:       controllerTemplate.create(controllerParts.create),
			PrepareUpdate:       controllerTemplate.update(controllerParts.update),
			Validate:            rules.ValidateController,
			ValidateUpdate:      rules.ValidateControllerUpdate,
			Warnings:            controllerWarnings,
			ValidateName:        core.ControllerName,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.ReplicationController]{
			PrepareUpdate:  controllerParts.statusUpdate,
			ValidateUpdate: core.ValidateControllerStatus,
			Reset:          []string{"spec"},
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

var podTemplateTemplate = templated[*corev1.PodTemplate]{
	template: func(obj *corev1.PodTemplate) *corev1.PodTemplateSpec { return &obj.Template },
	path:     field.NewPath("template"),
}

func podTemplates(deps Deps) *Kind {
	rules := core.Rules{Pods: deps.podRules()}
	return define(row[*corev1.PodTemplate]{
		Name: "PodTemplate", Resource: "podtemplates",
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultPodTemplate,
		Strategy: strategy[*corev1.PodTemplate]{
			PrepareCreate: podTemplateTemplate.create(func(_ context.Context, t *corev1.PodTemplate) { t.Generation = 1 }),
			PrepareUpdate: podTemplateTemplate.update(func(_ context.Context, new, old *corev1.PodTemplate) {
				if !apiequality.Semantic.DeepEqual(new.Template, old.Template) {
					new.Generation = old.Generation + 1
				}
			}),
			Validate:            rules.ValidatePodTemplate,
			ValidateUpdate:      rules.ValidatePodTemplateUpdate,
			Warnings:            podTemplateTemplate.warnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: core.PodTemplateColumns(),
		Row:     core.PodTemplateRow,
	})
}
