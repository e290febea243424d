package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// oldLabel is the template of pods that are to run on nodes with a label which is no more.
func oldLabel(key string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{key: "x"}}}
}

// TestControllerWarnings: updates of replication controllers are told of the template that there was.
func TestControllerWarnings(t *testing.T) {
	warnings := replicationControllers(api.Deps{}).Strategy.Warnings
	controller := func(generation int64, label string) *corev1.ReplicationController {
		c := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: oldLabel(label)}}
		c.Name, c.Generation = "c", generation
		return c
	}
	const arch, os = "beta.kubernetes.io/arch", "beta.kubernetes.io/os"
	want := []string{`spec.template.spec.nodeSelector[` + os +
		`]: deprecated since v1.14; use "kubernetes.io/os" instead`}
	if got := warnings(t.Context(), controller(1, os), nil); !slices.Equal(got, want) {
		t.Errorf("of a new one: %q", got)
	}
	if got := warnings(t.Context(), controller(2, arch), controller(1, os)); !slices.Equal(got, want) {
		t.Errorf("of another template: %q", got)
	}
	if got := warnings(t.Context(), controller(1, os), controller(1, os)); len(got) > 0 {
		t.Errorf("of no change: %q", got)
	}
}
