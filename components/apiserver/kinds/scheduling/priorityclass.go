package scheduling

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func priorityClasses() *api.Kind {
	return api.Define(api.Row[*schedulingv1.PriorityClass]{
		Name: "PriorityClass", Resource: "priorityclasses", ShortNames: []string{"pc"}, Cluster: true,
		Hub:     schedulingv1.SchemeGroupVersion,
		Default: Default,
		RemovedVersions: []api.Version{api.RemovedTwin[*schedulingv1beta1.PriorityClass](schedulingv1beta1.SchemeGroupVersion,
			Default)},
		Strategy: api.Strategy[*schedulingv1.PriorityClass]{
			PrepareCreate:       func(_ context.Context, c *schedulingv1.PriorityClass) { c.Generation = 1 },
			Validate:            api.OfObject(Validate),
			ValidateUpdate:      api.OfChange(ValidateUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: Columns(),
		Row:     Row,
	})
}

const (
	systemPrefix = "system-"
	// highestUser is the greatest priority that is not the system's own.
	highestUser = int32(1_000_000_000)
)

// systemClasses are the classes with the reserved prefix that exist, and their values.
var systemClasses = map[string]int32{
	"system-node-critical":    2*highestUser + 1000,
	"system-cluster-critical": 2 * highestUser,
}

// Default sets the defaults of a priority class.
func Default(c *schedulingv1.PriorityClass) {
	if c.PreemptionPolicy == nil {
		p := corev1.PreemptLowerPriority
		c.PreemptionPolicy = &p
	}
}

// Validate checks a priority class.
func Validate(c *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(c.Name, systemPrefix) {
		value, known := systemClasses[c.Name]
		if !known || value != c.Value || c.GlobalDefault {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				fmt.Sprintf("priority class names with '%s' prefix are reserved for system use only. error: %s",
					systemPrefix, systemProblem(c, known, value))))
		}
	} else if c.Value > highestUser {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUser)))
	}
	at := field.NewPath("preemptionPolicy")
	switch p := c.PreemptionPolicy; {
	case p == nil:
	case *p == "":
		errs = append(errs, field.Required(at, ""))
	default:
		errs = append(errs, checks.In(*p, at, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func systemProblem(c *schedulingv1.PriorityClass, known bool, value int32) string {
	switch {
	case !known:
		return fmt.Sprintf("%v is not a known system priority class", c.Name)
	case value != c.Value:
		return fmt.Sprintf("value of %v PriorityClass must be %v", c.Name, value)
	default:
		return fmt.Sprintf("globalDefault of %v PriorityClass must be false", c.Name)
	}
}

// ValidateUpdate checks a change: value and preemption policy stay, since pods carry copies.
func ValidateUpdate(new, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if new.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	if show.Or(new.PreemptionPolicy, "") != show.Or(old.PreemptionPolicy, "") {
		errs = append(errs, field.Invalid(field.NewPath("preemptionPolicy"), new.PreemptionPolicy,
			"field is immutable"))
	}
	return errs
}

// Columns are the columns of priority classes.
func Columns() show.Columns {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return show.Name().
		Of("integer", "Value", doc["value"]).
		Of("boolean", "Global-Default", doc["globalDefault"]).
		Age().
		String("PreemptionPolicy", doc["preemptionPolicy"])
}

// Row are the cells of a priority class.
func Row(c *schedulingv1.PriorityClass) []any {
	return []any{
		c.Name, int64(c.Value), c.GlobalDefault, show.Age(c.CreationTimestamp),
		string(show.Or(c.PreemptionPolicy, corev1.PreemptLowerPriority)),
	}
}
