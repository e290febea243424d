package core

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var controllerParts = api.Parts[*corev1.ReplicationController, corev1.ReplicationControllerSpec,
	corev1.ReplicationControllerStatus]{
	Spec:   func(r *corev1.ReplicationController) *corev1.ReplicationControllerSpec { return &r.Spec },
	Status: func(r *corev1.ReplicationController) *corev1.ReplicationControllerStatus { return &r.Status },
}

var controllerTemplate = podspec.Templated[*corev1.ReplicationController]{
	Template: func(obj *corev1.ReplicationController) *corev1.PodTemplateSpec { return obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
	Naming:   true,
}

// controllerWarnings tell of an update what was wrong with the template before: upstream takes the one for the other.
func controllerWarnings(new, old *corev1.ReplicationController) []string {
	if old == nil {
		return controllerTemplate.Warnings(new, nil)
	}
	return controllerTemplate.Warnings(old, new)
}

func replicationControllers(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*corev1.ReplicationController]{
		Name: "ReplicationController", Resource: "replicationcontrollers", ShortNames: []string{"rc"},
		Categories: []string{"all"},
		Prefix:     "controllers",
		Hub:        corev1.SchemeGroupVersion,
		Default:    DefaultController,
		Strategy: api.Strategy[*corev1.ReplicationController]{
			PrepareCreate:       controllerTemplate.Create(deps.Pods, controllerParts.Create),
			PrepareUpdate:       controllerTemplate.Update(deps.Pods, controllerParts.Update),
			Validate:            api.OfObject(rules.ValidateController),
			ValidateUpdate:      api.OfChange(rules.ValidateControllerUpdate),
			Warnings:            api.OfChange(controllerWarnings),
			ValidateName:        ControllerName,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.ReplicationController]{
			PrepareUpdate:  controllerParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateControllerStatus),
			Reset:          []string{"spec"},
		},
		Scale: api.ReplicasScale(func(r *corev1.ReplicationController) (autoscalingv1.ScaleSpec, autoscalingv1.ScaleStatus) {
			spec, status := api.ScaleOf(r.Spec.Replicas, r.Status.Replicas, nil)
			status.Selector = labels.SelectorFromSet(r.Spec.Selector).String()
			return spec, status
		},
			func(r *corev1.ReplicationController, n int32) { r.Spec.Replicas = &n }),
		Columns: ControllerColumns(),
		Row:     ControllerRow,
		Fields: map[string]func(*corev1.ReplicationController) string{
			"status.replicas": func(r *corev1.ReplicationController) string {
				return strconv.Itoa(int(r.Status.Replicas))
			},
		},
	})
}

var podTemplateTemplate = podspec.Templated[*corev1.PodTemplate]{
	Template: func(obj *corev1.PodTemplate) *corev1.PodTemplateSpec { return &obj.Template },
	Path:     field.NewPath("template"),
}

func podTemplates(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*corev1.PodTemplate]{
		Name: "PodTemplate", Resource: "podtemplates",
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultPodTemplate,
		Strategy: api.Strategy[*corev1.PodTemplate]{
			PrepareCreate: podTemplateTemplate.Create(deps.Pods, func(_ context.Context, t *corev1.PodTemplate) {
				t.Generation = 1
			}),
			PrepareUpdate: podTemplateTemplate.Update(deps.Pods, func(_ context.Context, new, old *corev1.PodTemplate) {
				if !apiequality.Semantic.DeepEqual(new.Template, old.Template) {
					new.Generation = old.Generation + 1
				}
			}),
			Validate:            api.OfObject(rules.ValidatePodTemplate),
			ValidateUpdate:      api.OfChange(rules.ValidatePodTemplateUpdate),
			Warnings:            api.OfChange(podTemplateTemplate.Warnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: PodTemplateColumns(),
		Row:     PodTemplateRow,
	})
}

// ControllerName checks the name of a controller, but not one to generate it from.
func ControllerName(name string, prefix bool) []string {
	if prefix {
		return nil
	}
	return content.IsDNS1123Subdomain(name)
}

// DefaultController sets the defaults of a replication controller: selector and labels follow the template.
func DefaultController(r *corev1.ReplicationController) {
	if t := r.Spec.Template; t != nil {
		podspec.DefaultTemplate(t)
		if t.Labels != nil {
			if len(r.Spec.Selector) == 0 {
				r.Spec.Selector = t.Labels
			}
			if len(r.Labels) == 0 {
				r.Labels = t.Labels
			}
		}
	}
	setDefault(&r.Spec.Replicas, 1)
}

// DefaultPodTemplate sets the defaults of a pod template.
func DefaultPodTemplate(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) }

// ControllerColumns are the columns of replication controllers.
func ControllerColumns() show.Columns {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return show.Name().
		Of("integer", "Desired", spec["replicas"]).
		Of("integer", "Current", status["replicas"]).
		Of("integer", "Ready", status["readyReplicas"]).
		Age().
		Wide("Containers", "Names of each container in the template.").
		Wide("Images", "Images referenced by each container in the template.").
		Wide("Selector", spec["selector"])
}

// ControllerRow are the cells of a replication controller.
func ControllerRow(r *corev1.ReplicationController) []any {
	names, images := "", ""
	if r.Spec.Template != nil {
		names, images = containers(r.Spec.Template.Spec.Containers)
	}
	return []any{
		r.Name, int64(show.Or(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
		show.Age(r.CreationTimestamp), names, images, show.Labels(r.Spec.Selector),
	}
}

// PodTemplateColumns are the columns of pod templates.
func PodTemplateColumns() show.Columns {
	return show.Name().
		String("Containers", "Names of each container in the template.").
		String("Images", "Images referenced by each container in the template.").
		String("Pod Labels", "The labels for the pod template.")
}

// PodTemplateRow are the cells of a pod template.
func PodTemplateRow(t *corev1.PodTemplate) []any {
	names, images := containers(t.Template.Spec.Containers)
	return []any{t.Name, names, images, show.Labels(t.Template.Labels)}
}

func containers(cs []corev1.Container) (names, images string) {
	n, i := make([]string, len(cs)), make([]string, len(cs))
	for k := range cs {
		n[k], i[k] = cs[k].Name, cs[k].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

// Rules check, as far as that is for each server to say.
type Rules struct{ Pods podspec.Rules }

// ValidateController checks a replication controller.
func (r Rules) ValidateController(rc *corev1.ReplicationController) field.ErrorList {
	return r.validateController(&rc.Spec, nil)
}

// ValidateControllerUpdate checks a change.
func (r Rules) ValidateControllerUpdate(new, old *corev1.ReplicationController) field.ErrorList {
	errs := r.validateController(&new.Spec, old.Spec.Template)
	return append(errs, unconverted(new, old)...)
}

// unconverted checks a change of a controller that stands for a replica set of which it can't say all: annotations tell
// what, and that the selector has to stay if it is that.
func unconverted(new, old *corev1.ReplicationController) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(old.Annotations)) {
		prefix, name, ok := strings.Cut(key, "/")
		switch {
		case !ok || !strings.HasPrefix(prefix, corev1.NonConvertibleAnnotationPrefix):
		case !strings.Contains(name, "selector"):
			errs = append(errs, &field.Error{Type: field.ErrorTypeNotFound, Field: name, BadValue: old.Annotations[key],
				Detail: "unknown non-convertible field"})
		case !maps.Equal(old.Spec.Selector, new.Spec.Selector):
			errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), new.Spec.Selector,
				"cannot update non-convertible selector"))
		}
	}
	return errs
}

// validateController checks the spec of a replication controller; old is the template that it had, nil if it is new.
func (r Rules) validateController(s *corev1.ReplicationControllerSpec, old *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := checks.NonNegative(int64(s.MinReadySeconds), path.Child("minReadySeconds"))
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	if s.Replicas == nil {
		errs = append(errs, field.Required(path.Child("replicas"), ""))
	} else {
		errs = append(errs, checks.NonNegative(int64(*s.Replicas), path.Child("replicas"))...)
	}
	template := path.Child("template")
	if s.Template == nil {
		return append(errs, field.Required(template, ""))
	}
	errs = append(errs, podspec.ValidateFound(s.Template, labels.SelectorFromSet(s.Selector), template)...)
	errs = append(errs, r.Pods.ValidateTemplate(s.Template, old, template)...)
	return append(errs, podspec.ValidateEndless(&s.Template.Spec, "ReplicationController", template.Child("spec"))...)
}

// ValidatePodTemplate checks a pod template.
func (r Rules) ValidatePodTemplate(t *corev1.PodTemplate) field.ErrorList {
	return r.Pods.ValidateTemplate(&t.Template, nil, field.NewPath("template"))
}

// ValidatePodTemplateUpdate checks a change.
func (r Rules) ValidatePodTemplateUpdate(new, old *corev1.PodTemplate) field.ErrorList {
	return r.Pods.ValidateTemplate(&new.Template, &old.Template, field.NewPath("template"))
}

// ValidateControllerStatus checks a change of the status.
func ValidateControllerStatus(new, _ *corev1.ReplicationController) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	errs := checks.Counts(path,
		checks.Count{Name: "replicas", Value: s.Replicas},
		checks.Count{Name: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas},
		checks.Count{Name: "readyReplicas", Value: s.ReadyReplicas},
		checks.Count{Name: "availableReplicas", Value: s.AvailableReplicas},
	)
	errs = append(errs, checks.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	return append(errs, checks.Limits(path,
		checks.Limit{Name: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "readyReplicas", Value: s.ReadyReplicas, Max: s.Replicas, MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.Replicas,
			MaxName: "status.replicas"},
		checks.Limit{Name: "availableReplicas", Value: s.AvailableReplicas, Max: s.ReadyReplicas,
			MaxName: "readyReplicas"},
	)...)
}
