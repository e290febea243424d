package resource

import (
	"context"
	"encoding/json"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celapi "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

var deviceClassParts = api.Parts[*resourcev1.DeviceClass, resourcev1.DeviceClassSpec, struct{}]{
	Spec: func(c *resourcev1.DeviceClass) *resourcev1.DeviceClassSpec { return &c.Spec },
}

func deviceClasses() *api.Kind {
	return api.Define(api.Row[*resourcev1.DeviceClass]{
		Name: "DeviceClass", Resource: "deviceclasses", Cluster: true,
		Hub: resourcev1.SchemeGroupVersion,
		Others: []api.Version{
			api.TwinVersion[*resourcev1beta2.DeviceClass, *resourcev1.DeviceClass](resourcev1beta2.SchemeGroupVersion,
				nil),
			api.TwinVersion[*resourcev1beta1.DeviceClass, *resourcev1.DeviceClass](resourcev1beta1.SchemeGroupVersion,
				nil),
		},
		Strategy: api.Strategy[*resourcev1.DeviceClass]{
			Meta:                api.MetaAllInOrder,
			ReturnDeleted:       true,
			PrepareCreate:       deviceClassParts.Create,
			PrepareUpdate:       deviceClassParts.Update,
			Validate:            api.OfObject(ValidateClass),
			ValidateUpdate:      api.OfChange(ValidateClassUpdate),
			ValidateName:        ClassName,
			UnconditionalUpdate: true,
		},
		Columns: PlainColumns(),
		Row:     ClassRow,
	})
}

// ClassName checks the name of a device class.
func ClassName(name string, prefix bool) []string {
	if prefix {
		return nil // what comes of it is checked
	}
	return content.IsDNS1123Subdomain(name)
}

// ValidateClass checks a device class.
func ValidateClass(c *resourcev1.DeviceClass) field.ErrorList {
	return validateClass(&c.Spec, &resourcev1.DeviceClassSpec{})
}

// ValidateClassUpdate checks a change: what is stored already was good once, and stays so.
func ValidateClassUpdate(new, old *resourcev1.DeviceClass) field.ErrorList {
	return validateClass(&new.Spec, &old.Spec)
}

func validateClass(s, old *resourcev1.DeviceClassSpec) field.ErrorList {
	path := field.NewPath("spec")
	known := sets.New[string]()
	for i := range old.Selectors {
		if c := old.Selectors[i].CEL; c != nil {
			known.Insert(c.Expression)
		}
	}
	stored := apiequality.Semantic.DeepEqual(s.Config, old.Config)
	errs := selectors(s.Selectors, path.Child("selectors"), known)
	errs = append(errs, each(s.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(config resourcev1.DeviceClassConfiguration, at *field.Path) field.ErrorList {
			return configuration(&config.DeviceConfiguration, at, stored)
		})...)
	name, at := s.ExtendedResourceName, path.Child("extendedResourceName")
	if len(validate.ExtendedResourceName(context.Background(), operation.Operation{}, at, name, nil)) != 0 {
		errs = append(errs, field.Invalid(at, *name, "must be a valid extended resource name"))
	}
	return errs
}

// selectors checks expressions that choose devices. Those in stored are compiled as what is in the store is: with all
// that any version knows.
func selectors(list []resourcev1.DeviceSelector, path *field.Path, stored sets.Set[string]) field.ErrorList {
	return each(list, resourcev1.DeviceSelectorsMaxSize, path,
		func(s resourcev1.DeviceSelector, at *field.Path) field.ErrorList {
			if s.CEL == nil {
				return field.ErrorList{field.Required(at.Child("cel"), "")}
			}
			return expression(s.CEL.Expression, at.Child("cel", "expression"), stored.Has(s.CEL.Expression))
		})
}

func expression(text string, at *field.Path, stored bool) field.ErrorList {
	if len(text) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	env := environment.NewExpressions
	if stored {
		env = environment.StoredExpressions
	}
	result := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(text,
		cel.Options{EnvType: &env})
	switch {
	case result.Error != nil && result.Error.Type == celapi.ErrorTypeInternal:
		return field.ErrorList{field.InternalError(at, result.Error)}
	case result.Error != nil:
		return field.ErrorList{field.Invalid(at, text, result.Error.Detail)}
	case result.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(at, "too complex, exceeds cost limit")}
	}
	return nil
}

// configuration checks what a driver is told. What is stored already may be longer than it may be now.
func configuration(c *resourcev1.DeviceConfiguration, at *field.Path, stored bool) field.ErrorList {
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at.Child("opaque"), "")}
	}
	most := resourcev1.OpaqueParametersMaxLength
	if stored {
		most = len(c.Opaque.Parameters.Raw)
	}
	errs := driverName(c.Opaque.Driver, at.Child("opaque", "driver"))
	return append(errs, object(c.Opaque.Parameters, at.Child("opaque", "parameters"), most)...)
}

// object checks content that only a driver understands: it must be a JSON object.
func object(raw runtime.RawExtension, at *field.Path, max int) field.ErrorList {
	switch {
	case len(raw.Raw) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(raw.Raw) > max: // told first: such content isn't parsed
		return field.ErrorList{field.TooLong(at, "", max)}
	}
	var parsed any
	if err := json.Unmarshal(raw.Raw, &parsed); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "error parsing data as JSON: "+err.Error())}
	}
	if parsed == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	if _, ok := parsed.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}
