package storage

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
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

func storageClasses() *api.Kind {
	return api.Define(api.Row[*storagev1.StorageClass]{
		Name: "StorageClass", Resource: "storageclasses", ShortNames: []string{"sc"}, Cluster: true,
		Hub:     storagev1.SchemeGroupVersion,
		Default: DefaultClass,
		RemovedVersions: []api.Version{api.RemovedTwin[*storagev1beta1.StorageClass](storagev1beta1.SchemeGroupVersion,
			DefaultClass)},
		Strategy: api.Strategy[*storagev1.StorageClass]{
			Validate:            api.OfObject(ValidateClass),
			ValidateAmong:       api.WholeFirst(api.IgnoreOld(ValidateClass), ValidateClassChange),
			Warnings:            api.OfChange(ClassWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: ClassColumns(),
		Row:     ClassRow,
	})
}

// defaultAnnotations mark the class that claims without one get.
var defaultAnnotations = [...]string{"storageclass.kubernetes.io/is-default-class",
	"storageclass.beta.kubernetes.io/is-default-class"}

// DefaultClass sets the defaults of a storage class.
func DefaultClass(c *storagev1.StorageClass) {
	setDefault(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	setDefault(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

// ClassColumns are the columns of storage classes.
func ClassColumns() show.Columns {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return show.Name().
		String("Provisioner", doc["provisioner"]).
		String("ReclaimPolicy", doc["reclaimPolicy"]).
		String("VolumeBindingMode", doc["volumeBindingMode"]).
		String("AllowVolumeExpansion", doc["allowVolumeExpansion"]).
		Age()
}

// ClassRow are the cells of a storage class.
func ClassRow(c *storagev1.StorageClass) []any {
	name := c.Name
	for _, a := range defaultAnnotations {
		if c.Annotations[a] == "true" {
			name = c.Name + " (default)"
		}
	}
	return []any{name, c.Provisioner, string(show.Or(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
		string(show.Or(c.VolumeBindingMode, storagev1.VolumeBindingImmediate)), show.Or(c.AllowVolumeExpansion, false),
		show.Age(c.CreationTimestamp)}
}

// Bounds of the parameters of a class.
const (
	maxParameters     = 512
	maxParameterBytes = 256 * 1024
)

// ValidateClass checks a storage class.
func ValidateClass(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if c.Provisioner == "" {
		errs = append(errs, field.Required(field.NewPath("provisioner"), c.Provisioner))
	} else {
		errs = append(errs, checks.Text(strings.ToLower(c.Provisioner), field.NewPath("provisioner"),
			utilvalidation.IsQualifiedName)...)
	}
	errs = append(errs, parameters(c.Parameters, true, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != "" && *p != corev1.PersistentVolumeReclaimDelete &&
		*p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *p,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete,
				corev1.PersistentVolumeReclaimRetain}))
	}
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(field.NewPath("volumeBindingMode"), ""))
	} else {
		errs = append(errs, checks.In(*c.VolumeBindingMode, field.NewPath("volumeBindingMode"),
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func parameters(p map[string]string, allowEmpty bool, at *field.Path) field.ErrorList {
	if !allowEmpty && len(p) == 0 {
		return field.ErrorList{field.Required(at, "must contain at least one key/value pair")}
	}
	var errs field.ErrorList
	if len(p) > maxParameters {
		return field.ErrorList{field.TooLong(at, "", maxParameters)}
	}
	size := 0
	for k, v := range p {
		if k == "" {
			errs = append(errs, field.Invalid(at, k, "field can not be empty."))
		}
		size += len(k) + len(v)
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(at, "", maxParameterBytes))
	}
	return errs
}

func topologies(list []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range list {
		expressions := path.Index(i).Child("matchLabelExpressions")
		errs = append(errs, topologyKeys(t.MatchLabelExpressions, expressions)...)
		for _, o := range list[:i] {
			if equalTopology(o, t) {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
		if len(t.MatchLabelExpressions) == 0 { // it is the same as any
			for range list {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
	}
	return errs
}

func topologyKeys(list []corev1.TopologySelectorLabelRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for j, r := range list {
		at := path.Index(j)
		values := sets.New[string]()
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(at.Child("values"), ""))
		}
		for k, v := range r.Values {
			if values.Has(v) {
				errs = append(errs, field.Duplicate(at.Child("values").Index(k), v))
			}
			values.Insert(v)
		}
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, at.Child("key"))...)
		if seen.Has(r.Key) {
			errs = append(errs, field.Duplicate(at.Child("key"), r.Key))
		}
		seen.Insert(r.Key)
	}
	return errs
}

// equalTopology reports whether two terms ask for the same values of the same keys, in whatever order.
func equalTopology(a, b corev1.TopologySelectorTerm) bool {
	asked := func(t corev1.TopologySelectorTerm) map[string]sets.Set[string] {
		out := map[string]sets.Set[string]{}
		for _, r := range t.MatchLabelExpressions {
			out[r.Key] = sets.New(r.Values...)
		}
		return out
	}
	return apiequality.Semantic.DeepEqual(asked(a), asked(b))
}

// ValidateClassChange checks a change alone: volumes were made by what the class says, so it stays.
func ValidateClassChange(new, old *storagev1.StorageClass) field.ErrorList {
	errs := validation.ValidateImmutableField(new.Parameters, old.Parameters, field.NewPath("parameters"))
	errs = append(errs, validation.ValidateImmutableField(new.Provisioner, old.Provisioner,
		field.NewPath("provisioner"))...)
	errs = append(errs, validation.ValidateImmutableField(new.ReclaimPolicy, old.ReclaimPolicy,
		field.NewPath("reclaimPolicy"))...)
	return append(errs, validation.ValidateImmutableField(new.VolumeBindingMode, old.VolumeBindingMode,
		field.NewPath("volumeBindingMode"))...)
}

// ClassWarnings tell of labels of nodes that have another name by now.
func ClassWarnings(new, _ *storagev1.StorageClass) []string {
	var out []string
	for i := range new.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, e := range new.AllowedTopologies[i].MatchLabelExpressions {
			if text := podspec.NodeLabelWarning(e.Key); text != "" {
				out = append(out, fmt.Sprintf("%s: %s", at.Index(j).Child("key"), text))
			}
		}
	}
	return out
}
