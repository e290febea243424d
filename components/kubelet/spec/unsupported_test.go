package spec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestUnsupportedIsNamed(t *testing.T) {
	no, class, strict := false, "gvisor", v1.SupplementalGroupsPolicyStrict
	for want, test := range map[string]struct {
		spec   v1.PodSpec
		reason string
	}{
		"hostUsers":        {v1.PodSpec{HostUsers: &no}, "PodFeatureUnsupported"},
		"runtimeClassName": {v1.PodSpec{RuntimeClassName: &class}, "PodFeatureUnsupported"},
		"SupplementalGroupsPolicy=Strict": {
			v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}},
			"SupplementalGroupsPolicyNotSupported",
		},
	} {
		reason, message := (&Builder{}).Unsupported(&v1.Pod{Spec: test.spec})
		if reason != test.reason || !strings.Contains(message, want) {
			t.Errorf("%s: %q, %q", want, reason, message)
		}
		if reason,
			_ := (&Builder{Simulated: runtime.Simulated{Processes: true}}).Unsupported(&v1.Pod{Spec: test.spec}); reason != "" {
			t.Errorf("%s of a pod that is only simulated: %q", want, reason)
		}
	}
	if reason, message := (&Builder{}).Unsupported(&v1.Pod{}); reason != "" {
		t.Errorf("a pod that asks for nothing: %q, %q", reason, message)
	}
}
