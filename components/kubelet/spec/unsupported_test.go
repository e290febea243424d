package spec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestStrictGroups(t *testing.T) {
	strict := v1.SupplementalGroupsPolicyStrict
	pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}}}
	for name, test := range map[string]struct {
		builder Builder
		reason  string
	}{
		"an engine that can't": {Builder{}, "SupplementalGroupsPolicyNotSupported"},
		"one that can":         {Builder{StrictGroups: true}, ""},
		"a simulated one":      {Builder{Simulated: runtime.Simulated{Processes: true}}, ""},
	} {
		reason, message := test.builder.Unsupported(pod)
		if reason != test.reason || reason != "" && !strings.Contains(message, "SupplementalGroupsPolicy=Strict") {
			t.Errorf("%s: %q, %q", name, reason, message)
		}
	}
	if reason, message := (&Builder{}).Unsupported(&v1.Pod{}); reason != "" {
		t.Errorf("a pod that asks for nothing: %q, %q", reason, message)
	}
	s := &runtime.ContainerSpec{}
	request := &Request{Pod: pod, Container: &v1.Container{}}
	if err := (&Builder{StrictGroups: true}).security(request, s); err != nil || !s.StrictGroups {
		t.Errorf("the engine is not told: %+v, %v", s, err)
	}
}

// TestUserNamespaceRefused: the errors are upstream's.
func TestUserNamespaceRefused(t *testing.T) {
	no, class := false, "special"
	builder := &Builder{RuntimeHandler: func(class string) (string, error) { return class + "-handler", nil }}
	for want, pod := range map[string]v1.PodSpec{
		"runtime does not support user namespaces": {HostUsers: &no},
		`RuntimeClass handler "special-handler" does not support user namespaces`: {HostUsers: &no,
			RuntimeClassName: &class},
	} {
		_, err := builder.Sandbox(&v1.Pod{Spec: pod}, 0)
		if err == nil || err.Error() != "can't set `spec.hostUsers: false`, "+want {
			t.Errorf("got %v, want %s", err, want)
		}
		simulated := &Builder{Simulated: runtime.Simulated{Processes: true, Files: true}}
		if _, err := simulated.Sandbox(&v1.Pod{Spec: pod}, 0); err != nil {
			t.Errorf("a pod that is only simulated: %v", err)
		}
	}
}

// TestHandler: sandbox and containers of a pod are run in the same way.
func TestHandler(t *testing.T) {
	class := "special"
	builder := &Builder{Simulated: runtime.Simulated{Files: true},
		RuntimeHandler: func(class string) (string, error) { return class + "-handler", nil }}
	pod := &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: &class, Containers: []v1.Container{{Name: "c"}}}}
	sandbox, err := builder.Sandbox(pod, 0)
	if err != nil || sandbox.Handler != "special-handler" {
		t.Errorf("sandbox %+v, %v", sandbox, err)
	}
	container, err := builder.Container(t.Context(),
		&Request{Pod: pod, Container: &pod.Spec.Containers[0], Sandbox: &runtime.Sandbox{}})
	if err != nil || container.Handler != "special-handler" {
		t.Errorf("container %+v, %v", container, err)
	}
}

func TestAppArmorRefused(t *testing.T) {
	profile := func(kind v1.AppArmorProfileType) *v1.AppArmorProfile { return &v1.AppArmorProfile{Type: kind} }
	pod := &v1.Pod{Spec: v1.PodSpec{
		SecurityContext: &v1.PodSecurityContext{AppArmorProfile: profile(v1.AppArmorProfileTypeUnconfined)},
		InitContainers:  []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{}}},
		Containers:      []v1.Container{{}},
	}}
	if reason, message := (&Builder{}).Unsupported(pod); reason != "" {
		t.Errorf("unconfined: %q, %q", reason, message)
	}
	pod.Spec.InitContainers[0].SecurityContext.AppArmorProfile = profile(v1.AppArmorProfileTypeRuntimeDefault)
	reason, message := (&Builder{}).Unsupported(pod)
	if reason != "AppArmor" || message != "Cannot enforce AppArmor: AppArmor is not enabled on the host" {
		t.Errorf("a container that is confined: %q, %q", reason, message)
	}
	if reason, message := (&Builder{AppArmor: true}).Unsupported(pod); reason != "" {
		t.Errorf("a node that has AppArmor: %q, %q", reason, message)
	}
	pod.Spec.InitContainers[0].SecurityContext.AppArmorProfile = nil
	pod.Spec.SecurityContext.AppArmorProfile = profile(v1.AppArmorProfileTypeLocalhost)
	if reason, _ := (&Builder{}).Unsupported(pod); reason != "AppArmor" {
		t.Errorf("a pod that is confined: %q", reason)
	}
}
