package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// templateWarnings makes the Warnings of a workload: of its template, whenever its spec is new.
func templateWarnings[P interface {
	Object
	comparable
}](template func(P) *corev1.PodTemplateSpec) func(new, old P) []string {
	return func(new, old P) []string {
		var none P
		if old != none && new.GetGeneration() == old.GetGeneration() {
			return nil
		}
		return podspec.TemplateWarnings(template(new), field.NewPath("spec", "template"))
	}
}
