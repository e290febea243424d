// Package node holds what runtime classes need beyond their row. It is pure.
package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// Default sets the defaults of a runtime class.
func Default(c *nodev1.RuntimeClass) {
	if c.Scheduling == nil {
		return
	}
	for i := range c.Scheduling.Tolerations {
		if t := &c.Scheduling.Tolerations[i]; t.Operator == "" {
			t.Operator = corev1.TolerationOpEqual
		}
	}
}

// Validate checks a runtime class.
func Validate(c *nodev1.RuntimeClass) field.ErrorList {
	errs := checks.Text(c.Handler, field.NewPath("handler"), utilvalidation.IsDNS1123Label)
	if c.Overhead != nil {
		for n, q := range c.Overhead.PodFixed {
			errs = append(errs, podspec.Quantity(n, q, field.NewPath("overhead", "podFixed").Key(string(n)))...)
		}
	}
	if c.Scheduling != nil {
		errs = append(errs, metavalidation.ValidateLabels(c.Scheduling.NodeSelector, field.NewPath("scheduling", "nodeSelector"))...)
		errs = append(errs, podspec.Tolerations(c.Scheduling.Tolerations, field.NewPath("scheduling", "tolerations"))...)
	}
	return errs
}

// ValidateUpdate checks a change: the handler stays.
func ValidateUpdate(new, old *nodev1.RuntimeClass) field.ErrorList {
	return append(Validate(new), validation.ValidateImmutableField(new.Handler, old.Handler, field.NewPath("handler"))...)
}

// Columns are the columns of runtime classes.
func Columns() show.Columns {
	return show.Name().String("Handler", "").Age()
}

// Row are the cells of a runtime class.
func Row(c *nodev1.RuntimeClass, now time.Time) []any {
	return []any{c.Name, c.Handler, show.Age(c.CreationTimestamp, now)}
}
