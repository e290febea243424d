package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestControllersThatCannotBeConverted: annotations keep the selector, and any change from a controller of which
// nothing else is known.
func TestControllersThatCannotBeConverted(t *testing.T) {
	const prefix = corev1.NonConvertibleAnnotationPrefix
	const immutable = `spec.selector: Invalid value: {"a":"c"}: cannot update non-convertible selector`
	for name, c := range map[string]struct {
		annotations map[string]string
		kept, moved []string // with the selector as it was, and with another
	}{
		"none":     {nil, nil, nil},
		"other":    {map[string]string{"example.com/selector": "x"}, nil, nil},
		"plain":    {map[string]string{prefix: "x"}, nil, nil},
		"selector": {map[string]string{prefix + "/spec.selector": "x"}, nil, []string{immutable}},
		"unknown": {map[string]string{prefix + "/spec.b": "x", prefix + "/spec.selector": "y"},
			[]string{`spec.b: Not found: "x": unknown non-convertible field`},
			[]string{`spec.b: Not found: "x": unknown non-convertible field`, immutable}},
	} {
		old := &corev1.ReplicationController{}
		old.Annotations = c.annotations
		old.Spec.Template = &corev1.PodTemplateSpec{}
		old.Spec.Template.Labels = map[string]string{"a": "b"}
		old.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		DefaultController(old)
		for value, want := range map[string][]string{"b": c.kept, "c": c.moved} {
			new := old.DeepCopy()
			new.Annotations = nil // what it was before counts
			new.Spec.Selector = map[string]string{"a": value}
			new.Spec.Template.Labels = map[string]string{"a": value}
			var got []string
			for _, err := range (Rules{}).ValidateControllerUpdate(new, old) {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", name, value, got, want)
			}
		}
	}
}
