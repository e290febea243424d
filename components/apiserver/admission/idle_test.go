package admission

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/admission/topologylabels"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// seen is a Meter that remembers which plug-ins were called, with their steps and operations.
type seen map[string]bool

func (s seen) Plugin(name, step string) func(time.Duration, admission.Operation, bool) {
	return func(_ time.Duration, o admission.Operation, _ bool) { s[name+" "+step+" "+string(o)] = true }
}

func (seen) Step(string) func(time.Duration, admission.Operation, bool) {
	return func(time.Duration, admission.Operation, bool) {}
}

// TestIdlePluginsAreMeasured: plug-ins without their features do nothing, in the steps and at the operations of those
// that do.
func TestIdlePluginsAreMeasured(t *testing.T) {
	off := []string{dynamic.MutatingPolicy, topologylabels.Name, "PodGroupProtection", "PodGroupWorkloadExists",
		"JobValidation", "Priority", "AlwaysAdmit"}
	s := seen{}
	c, err := New(Config{Objects: &objectstest.Store{}, Only: off, Without: off[:2], Meter: s})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.runners) > 0 {
		t.Errorf("%d plug-ins run, none of which has anything to follow", len(c.runners))
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	for _, o := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if err := do(c, write{op: o, resource: corev1.Resource("pods"), obj: pod.DeepCopy(),
			old: pod.DeepCopy()}); err != nil {
			t.Fatal(o, err)
		}
	}
	want := []string{
		"AlwaysAdmit admit CONNECT", "AlwaysAdmit admit CREATE", "AlwaysAdmit admit DELETE", "AlwaysAdmit admit UPDATE",
		"AlwaysAdmit validate CONNECT", "AlwaysAdmit validate CREATE", "AlwaysAdmit validate DELETE",
		"AlwaysAdmit validate UPDATE",
		"JobValidation validate UPDATE",
		"MutatingAdmissionPolicy admit CONNECT", "MutatingAdmissionPolicy admit CREATE",
		"MutatingAdmissionPolicy admit UPDATE",
		"PodGroupProtection admit CREATE", "PodGroupWorkloadExists validate CREATE", "PodTopologyLabels admit CREATE",
		"Priority admit CREATE", "Priority admit DELETE", "Priority admit UPDATE",
		"Priority validate CREATE", "Priority validate DELETE", "Priority validate UPDATE",
	}
	if got := slices.Sorted(maps.Keys(s)); !slices.Equal(got, want) {
		t.Errorf("measured\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
