package node

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func runtimeClasses() *api.Kind {
	return api.Define(api.Row[*nodev1.RuntimeClass]{
		Name: "RuntimeClass", Resource: "runtimeclasses", Cluster: true,
		Hub: nodev1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*nodev1beta1.RuntimeClass, *nodev1.RuntimeClass](nodev1beta1.SchemeGroupVersion, nil),
			api.RemovedVersion(nodev1alpha1.SchemeGroupVersion, FromV1alpha1, nil),
		},
		Strategy: api.Strategy[*nodev1.RuntimeClass]{
			AnyFinalizer:   true,
			Validate:       api.OfObject(Validate),
			ValidateAmong:  api.WholeFirst(api.IgnoreOld(Validate), ValidateChange),
			Warnings:       api.OfChange(Warnings),
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: Columns(),
		Row:     Row,
	})
}

// Validate checks a runtime class.
func Validate(c *nodev1.RuntimeClass) field.ErrorList {
	errs := checks.Required(c.Handler, field.NewPath("handler"))
	if c.Handler != "" {
		errs = append(errs, checks.Text(c.Handler, field.NewPath("handler"), utilvalidation.IsDNS1123Label)...)
	}
	if c.Overhead != nil { // which is checked as if it were the limits of a container, and told so
		errs = append(errs, podspec.Overhead(c.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if c.Scheduling != nil {
		errs = append(errs, metavalidation.ValidateLabels(c.Scheduling.NodeSelector,
			field.NewPath("scheduling", "nodeSelector"))...)
		errs = append(errs, validateTolerations(c.Scheduling.Tolerations,
			field.NewPath("scheduling", "tolerations"))...)
	}
	return errs
}

// validateTolerations checks those of a class: they are a set, whatever their seconds.
func validateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	errs := podspec.Tolerations(list, path)
	seen := sets.New[corev1.Toleration]()
	for i, t := range list {
		key := t
		key.TolerationSeconds = nil
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(path.Index(i), checks.Unversioned(t)))
		}
		seen.Insert(key)
	}
	return errs
}

// ValidateChange checks a change alone: the handler stays.
func ValidateChange(new, old *nodev1.RuntimeClass) field.ErrorList {
	return validation.ValidateImmutableField(new.Handler, old.Handler, field.NewPath("handler"))
}

// Columns are the columns of runtime classes.
func Columns() show.Columns {
	return show.Name().String("Handler", "").Age()
}

// Row are the cells of a runtime class.
func Row(c *nodev1.RuntimeClass) []any {
	return []any{c.Name, c.Handler, show.Age(c.CreationTimestamp)}
}
