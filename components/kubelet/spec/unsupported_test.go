package spec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestUnsupportedIsNamed(t *testing.T) {
	no, class, strict := false, "gvisor", v1.SupplementalGroupsPolicyStrict
	for want, spec := range map[string]v1.PodSpec{
		"hostUsers":                {HostUsers: &no},
		"runtimeClassName":         {RuntimeClassName: &class},
		"resourceClaims":           {ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}},
		"supplementalGroupsPolicy": {SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}},
	} {
		if _, err := (&Builder{}).Sandbox(&v1.Pod{Spec: spec}, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := (&Builder{Virtual: true}).Sandbox(&v1.Pod{Spec: spec}, 0); err != nil {
			t.Errorf("%s of a pod that is only pretended: %v", want, err)
		}
	}
	if _, err := (&Builder{}).Sandbox(&v1.Pod{}, 0); err != nil {
		t.Error(err)
	}
}
