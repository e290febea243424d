package scheduling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"
)

func class(name string, value int32) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{Value: value}
	c.Name = name
	Default(c)
	return c
}

func preempting(policy corev1.PreemptionPolicy) *schedulingv1.PriorityClass {
	c := class("c", 1)
	c.PreemptionPolicy = &policy
	return c
}

func TestValidate(t *testing.T) {
	global := class("system-node-critical", 2_000_001_000)
	global.GlobalDefault = true
	const reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix " +
		"are reserved for system use only. error: "
	for _, test := range []struct {
		name  string
		class *schedulingv1.PriorityClass
		want  string
	}{
		{"lowest", class("c", -2147483648), ""},
		{"highest", class("c", 1_000_000_000), ""},
		{"above", class("c", 1_000_000_001),
			"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"},
		{"nodes", class("system-node-critical", 2_000_001_000), ""},
		{"cluster", class("system-cluster-critical", 2_000_000_000), ""},
		{"of another value", class("system-cluster-critical", 1),
			reserved + "value of system-cluster-critical PriorityClass must be 2000000000"},
		{"for all", global, reserved + "globalDefault of system-node-critical PriorityClass must be false"},
		{"unknown", class("system-x", 1), reserved + "system-x is not a known system priority class"},
		{"never", preempting(corev1.PreemptNever), ""},
		{"no policy", preempting(""), "preemptionPolicy: Required value"},
		{"unknown policy", preempting("Always"),
			`preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"`},
	} {
		errs := Validate(test.class)
		if test.want == "" && len(errs) > 0 || test.want != "" && (len(errs) != 1 || errs[0].Error() != test.want) {
			t.Errorf("%s: got %v", test.name, errs)
		}
	}
}

// TestValidateUpdate: what pods have copies of stays; a policy that isn't there is another than the default.
func TestValidateUpdate(t *testing.T) {
	bare := class("c", 1)
	bare.PreemptionPolicy = nil
	for _, test := range []struct {
		name     string
		new, old *schedulingv1.PriorityClass
		want     string
	}{
		{"same", class("c", 1), class("c", 1), ""},
		{"value", class("c", 2), class("c", 1), "value: Forbidden: may not be changed in an update."},
		{"policy", preempting(corev1.PreemptNever), class("c", 1), "preemptionPolicy: Invalid value: "},
		{"policy gone", bare, class("c", 1), "preemptionPolicy: Invalid value: "},
		{"no policy", bare, bare, ""},
	} {
		errs := ValidateUpdate(test.new, test.old)
		if test.want == "" && len(errs) > 0 ||
			test.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), test.want)) {
			t.Errorf("%s: got %v", test.name, errs)
		}
	}
}

func TestDefault(t *testing.T) {
	if c := class("c", 1); *c.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("default %v", *c.PreemptionPolicy)
	}
	c := &schedulingv1.PriorityClass{PreemptionPolicy: ptr.To(corev1.PreemptNever)}
	if Default(c); *c.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("what was given became %v", *c.PreemptionPolicy)
	}
}
