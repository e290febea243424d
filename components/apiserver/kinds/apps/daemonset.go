package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var daemonSetParts = api.Parts[*appsv1.DaemonSet, appsv1.DaemonSetSpec, appsv1.DaemonSetStatus]{
	Spec:   func(d *appsv1.DaemonSet) *appsv1.DaemonSetSpec { return &d.Spec },
	Status: func(d *appsv1.DaemonSet) *appsv1.DaemonSetStatus { return &d.Status },
}

var daemonSetTemplate = podspec.Templated[*appsv1.DaemonSet]{
	Template: func(obj *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
	Changed: func(new, old *appsv1.DaemonSet) bool {
		return TemplateGeneration(new) != TemplateGeneration(old)
	},
}

func daemonSets(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*appsv1.DaemonSet]{
		Name: "DaemonSet", Resource: "daemonsets", ShortNames: []string{"ds"}, Categories: []string{"all"},
		Hub:     appsv1.SchemeGroupVersion,
		Default: DefaultDaemonSet,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*appsv1beta2.DaemonSet](appsv1beta2.SchemeGroupVersion, DefaultDaemonSet),
			api.RemovedVersion(extensionsv1beta1.SchemeGroupVersion, DaemonSetFromExtensions,
				DefaultDaemonSetExtensions),
		},
		FieldAnnotations: []string{appsv1.DeprecatedTemplateGeneration},
		Check:            CheckDaemonSet,
		Strategy: api.Strategy[*appsv1.DaemonSet]{
			PrepareCreate: daemonSetTemplate.Create(deps.Pods, func(ctx context.Context, d *appsv1.DaemonSet) {
				daemonSetParts.Create(ctx, d)
				if TemplateGeneration(d) < 1 {
					SetTemplateGeneration(d, 1)
				}
			}),
			PrepareUpdate: daemonSetTemplate.Update(deps.Pods, func(ctx context.Context, new, old *appsv1.DaemonSet) {
				daemonSetParts.Update(ctx, new, old)
				n := TemplateGeneration(old)
				if !apiequality.Semantic.DeepEqual(new.Spec.Template, old.Spec.Template) {
					n++
				}
				if TemplateGeneration(new) != n {
					SetTemplateGeneration(new, n)
				}
			}),
			Validate:            api.OfObject(rules.ValidateDaemonSet),
			ValidateUpdate:      api.OfChange(rules.ValidateDaemonSetUpdate),
			Warnings:            api.OfChange(daemonSetTemplate.Warnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*appsv1.DaemonSet]{
			PrepareUpdate: func(ctx context.Context, new, old *appsv1.DaemonSet) {
				daemonSetParts.StatusUpdate(ctx, new, old)
				// a part of the spec, though an annotation
				SetTemplateGeneration(new, TemplateGeneration(old))
			},
			ValidateUpdate: api.OfChange(ValidateDaemonSetStatus),
			Reset:          []string{"spec"},
		},
		Columns: DaemonSetColumns(),
		Row:     DaemonSetRow,
	})
}

// DefaultDaemonSet sets the defaults of a daemon set.
func DefaultDaemonSet(d *appsv1.DaemonSet) {
	podspec.DefaultTemplate(&d.Spec.Template)
	if CheckDaemonSet(d) == nil {
		SetTemplateGeneration(d, TemplateGeneration(d))
	}
	u := &d.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if u.RollingUpdate == nil {
			u.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		setDefault(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if r := u.RollingUpdate; r != nil {
		setDefault(&r.MaxUnavailable, intstr.FromInt32(0)) // of another strategy, where it means nothing
		setDefault(&r.MaxSurge, intstr.FromInt32(0))
	}
	setDefault(&d.Spec.RevisionHistoryLimit, 10)
}

// CheckDaemonSet tells of an annotation of the template's generation that is no number.
func CheckDaemonSet(d *appsv1.DaemonSet) error {
	text, set := d.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !set {
		return nil
	}
	_, err := strconv.ParseInt(text, 10, 64)
	return err
}

// TemplateGeneration returns how often the template of a daemon set has changed. It lives in an annotation since the
// field is gone from the API.
func TemplateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// SetTemplateGeneration writes it.
func SetTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations[appsv1.DeprecatedTemplateGeneration] == strconv.FormatInt(n, 10) {
		return
	}
	annotations := make(map[string]string, len(d.Annotations)+1)
	for k, v := range d.Annotations {
		annotations[k] = v
	}
	annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
	d.Annotations = annotations
}

// DaemonSetColumns are the columns of daemon sets.
func DaemonSetColumns() show.Columns {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return show.Name().
		Of("integer", "Desired", status["desiredNumberScheduled"]).
		Of("integer", "Current", status["currentNumberScheduled"]).
		Of("integer", "Ready", status["numberReady"]).
		Of("integer", "Up-to-date", status["updatedNumberScheduled"]).
		Of("integer", "Available", status["numberAvailable"]).
		String("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]).
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", spec["selector"])
}

// DaemonSetRow are the cells of a daemon set.
func DaemonSetRow(d *appsv1.DaemonSet) []any {
	names, images := show.Containers(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return []any{
		d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), show.Labels(d.Spec.Template.Spec.NodeSelector),
		show.Age(d.CreationTimestamp), names, images, show.Selector(d.Spec.Selector),
	}
}
