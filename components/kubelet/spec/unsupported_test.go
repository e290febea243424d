package spec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestUnsupportedIsNamed(t *testing.T) {
	no, class, strict := false, "gvisor", v1.SupplementalGroupsPolicyStrict
	for want, test := range map[string]struct {
		spec   v1.PodSpec
		reason string
	}{
		"hostUsers":        {v1.PodSpec{HostUsers: &no}, "PodFeatureUnsupported"},
		"runtimeClassName": {v1.PodSpec{RuntimeClassName: &class}, "PodFeatureUnsupported"},
		"resourceClaims":   {v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}, "PodFeatureUnsupported"},
		"volumes: image": {
			v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{}}}}},
			"PodFeatureUnsupported",
		},
		"SupplementalGroupsPolicy=Strict": {
			v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}},
			"SupplementalGroupsPolicyNotSupported",
		},
	} {
		reason, message := (&Builder{}).Unsupported(&v1.Pod{Spec: test.spec})
		if reason != test.reason || !strings.Contains(message, want) {
			t.Errorf("%s: %q, %q", want, reason, message)
		}
		if reason, _ := (&Builder{Virtual: true}).Unsupported(&v1.Pod{Spec: test.spec}); reason != "" {
			t.Errorf("%s of a pod that is only pretended: %q", want, reason)
		}
	}
	if reason, message := (&Builder{}).Unsupported(&v1.Pod{}); reason != "" {
		t.Errorf("a pod that asks for nothing: %q, %q", reason, message)
	}
}
