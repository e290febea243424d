package node

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func class(changes ...func(c *nodev1.RuntimeClass)) *nodev1.RuntimeClass {
	c := &nodev1.RuntimeClass{Handler: "runc"}
	for _, change := range changes {
		change(c)
	}
	return c
}

func overhead(list corev1.ResourceList) func(c *nodev1.RuntimeClass) {
	return func(c *nodev1.RuntimeClass) { c.Overhead = &nodev1.Overhead{PodFixed: list} }
}

func tolerating(list ...corev1.Toleration) func(c *nodev1.RuntimeClass) {
	return func(c *nodev1.RuntimeClass) { c.Scheduling = &nodev1.Scheduling{Tolerations: list} }
}

func selecting(labels map[string]string) func(c *nodev1.RuntimeClass) {
	return func(c *nodev1.RuntimeClass) { c.Scheduling = &nodev1.Scheduling{NodeSelector: labels} }
}

// sameErrors compares errors to how each of those wanted begins.
func sameErrors(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	texts := make([]string, len(got))
	for i, err := range got {
		texts[i] = err.Error()
	}
	if !slices.EqualFunc(texts, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name  string
		class *nodev1.RuntimeClass
		want  []string
	}{
		{"handler alone", class(), nil},
		{"no handler", class(func(c *nodev1.RuntimeClass) { c.Handler = "" }), []string{"handler: Required value"}},
		{"no name of a handler", class(func(c *nodev1.RuntimeClass) { c.Handler = "run.c" }),
			[]string{`handler: Invalid value: "run.c": must not contain dots`}},
		{"overhead", class(overhead(corev1.ResourceList{"cpu": resource.MustParse("1m")})), nil},
		{"overhead below zero", class(overhead(corev1.ResourceList{"cpu": resource.MustParse("-1")})),
			[]string{`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"labels", class(selecting(map[string]string{"a": "b"})), nil},
		{"bad labels", class(selecting(map[string]string{"a": "b!"})),
			[]string{`scheduling.nodeSelector: Invalid value: "b!"`}},
		{"tolerations", class(tolerating(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists})), nil},
		{"toleration of nothing", class(tolerating(corev1.Toleration{Operator: corev1.TolerationOpEqual})),
			[]string{`scheduling.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when`}},
		{"tolerations that differ in seconds", class(tolerating(
			corev1.Toleration{Key: "a", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](1)},
			corev1.Toleration{Key: "a", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](2)})),
			[]string{"scheduling.tolerations[1]: Duplicate value: "}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, Validate(test.class), test.want) })
	}
}

func TestHandlerStays(t *testing.T) {
	other := class(func(c *nodev1.RuntimeClass) { c.Handler = "gvisor" })
	sameErrors(t, ValidateChange(class(), class()), nil)
	sameErrors(t, ValidateChange(other, class()), []string{`handler: Invalid value: "gvisor": field is immutable`})
}

// TestWarnings: labels of nodes that were renamed are told of in the order of their names; others are not.
func TestWarnings(t *testing.T) {
	got := Warnings(class(selecting(map[string]string{
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})), nil)
	want := []string{
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead`,
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := Warnings(class(), nil); len(got) > 0 {
		t.Errorf("without labels: %q", got)
	}
}

func TestFromV1alpha1(t *testing.T) {
	old := &nodev1alpha1.RuntimeClass{Spec: nodev1alpha1.RuntimeClassSpec{
		RuntimeHandler: "runc",
		Overhead:       &nodev1alpha1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		Scheduling:     &nodev1alpha1.Scheduling{NodeSelector: map[string]string{"a": "b"}},
	}}
	old.Name = "c"
	got := FromV1alpha1(old)
	if got.Name != "c" || got.Handler != "runc" || got.Overhead.PodFixed.Cpu().Value() != 1 ||
		got.Scheduling.NodeSelector["a"] != "b" {
		t.Errorf("got %v", got)
	}
}
