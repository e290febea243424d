package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPortWarnings: which definitions of one port of the pod stand in each other's way.
func TestPortWarnings(t *testing.T) {
	type port = corev1.ContainerPort
	with := func(list ...port) func(*corev1.PodSpec) {
		for i := range list {
			setNumber(&list[i].ContainerPort, 80)
			setString(&list[i].Protocol, "TCP")
		}
		return inContainer(func(c *corev1.Container) { c.Ports = list })
	}
	between := func(what string) texts {
		return texts{"spec.containers[0].ports[1]: " + what + " port definition with spec.containers[0].ports[0]"}
	}
	checkWarnings(t, []specCase{
		{"other numbers", with(port{}, port{ContainerPort: 81}), nil},
		{"other protocols", with(port{}, port{Protocol: "UDP"}), nil},
		{"the same", with(port{}, port{}), between("duplicate")},
		{"the same on the host", with(port{HostPort: 1}, port{HostPort: 1}), between("duplicate")},
		{"once on the host", with(port{}, port{HostPort: 1}), between("overlapping")},
		{"twice on the host", with(port{HostPort: 1}, port{HostPort: 2}), nil},
		{"other addresses of the host", with(port{HostPort: 1, HostIP: "10.0.0.1"},
			port{HostPort: 1, HostIP: "10.0.0.2"}), nil},
		{"all addresses and one", with(port{HostPort: 1}, port{HostPort: 1, HostIP: "10.0.0.2"}),
			between("dangerously ambiguous")},
		{"one address and all", with(port{HostPort: 1, HostIP: "10.0.0.2"}, port{HostPort: 1}),
			between("dangerously ambiguous")},
		{"address without a port", with(port{HostIP: "10.0.0.1"}),
			texts{"spec.containers[0].ports[0]: hostIP set without hostPort: " +
				"{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"}},
		{"of two containers", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, named("d"))
			for i := range s.Containers {
				s.Containers[i].Ports = []port{{ContainerPort: 80, Protocol: "TCP"}}
			}
		}, texts{"spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]"}},
		{"three", with(port{}, port{}, port{}), texts{between("duplicate")[0],
			"spec.containers[0].ports[2]: duplicate port definition with spec.containers[0].ports[0]",
			"spec.containers[0].ports[2]: duplicate port definition with spec.containers[0].ports[1]"}},
	})
}

// TestFurtherWarnings: annotations, lists, addresses and amounts.
func TestFurtherWarnings(t *testing.T) {
	checkWarnings(t, []specCase{
		{"aliases", func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}, {IP: "10.0.0.1"}}
		}, texts{`spec.hostAliases[2].ip: duplicate ip "10.0.0.1"`}},
		{"pull secrets", func(s *corev1.PodSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}, {Name: "a"}}
		}, texts{`spec.imagePullSecrets[2].name: duplicate name "a"`}},
		{"pull secrets without names",
			func(s *corev1.PodSpec) { s.ImagePullSecrets = make([]corev1.LocalObjectReference, 2) },
			texts{`spec.imagePullSecrets[1].name: duplicate name ""`,
				`spec.imagePullSecrets[0].name: invalid empty name ""`,
				`spec.imagePullSecrets[1].name: invalid empty name ""`}},
		{"addresses", func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Nameservers: texts{"10.0.0.1", "FD00::1"}}
			s.HostAliases = []corev1.HostAlias{{IP: "FD00::2"}}
		}, texts{`spec.dnsConfig.nameservers[1]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`,
			`spec.hostAliases[0].ip: IPv6 address "FD00::2" should be in RFC 5952 canonical format ("fd00::2")`}},
		{"overhead",
			func(s *corev1.PodSpec) { s.Overhead = amounts("memory", "1m", "ephemeral-storage", "2m", "cpu", "1m") },
			texts{
				`spec.overhead[memory]: fractional byte value "1m" is invalid, must be an integer`,
				`spec.overhead[ephemeral-storage]: fractional byte value "2m" is invalid, must be an integer`}},
		{
			"limits",
			inContainer(func(c *corev1.Container) {
				c.Resources.Limits = amounts("ephemeral-storage", "2500m", "cpu",
					"1m")
			}),
			texts{
				`spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value "2500m" is invalid, must be an integer`,
			},
		},
		{"no grace", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) }, nil},
		{"variables of two containers", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, named("d"))
			for i := range s.Containers {
				s.Containers[i].Env = []corev1.EnvVar{{Name: "A"}}
			}
		}, nil},
	})
	const pod, ctr = corev1.SeccompPodAnnotationKey, corev1.SeccompContainerAnnotationKeyPrefix
	profile := &corev1.SeccompProfile{Type: "RuntimeDefault"}
	gone := `: non-functional in v1.27+; use the "seccompProfile" field instead`
	for name, c := range map[string]struct {
		annotation string
		change     func(p *corev1.Pod)
		want       string
	}{
		"critical": {"scheduler.alpha.kubernetes.io/critical-pod", nil,
			`: non-functional in v1.16+; use the "priorityClassName" field instead`},
		"sysctls": {"security.alpha.kubernetes.io/sysctls", nil,
			`: non-functional in v1.11+; use the "sysctls" field instead`},
		"unsafe sysctls": {"security.alpha.kubernetes.io/unsafe-sysctls", nil,
			`: non-functional in v1.11+; use the "sysctls" field instead`},
		"another": {"example.com/a", nil, ""},
		"seccomp": {pod, nil, gone},
		"seccomp with field": {pod,
			func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = profile }, ""},
		"seccomp without a security context": {pod, func(p *corev1.Pod) { p.Spec.SecurityContext = nil }, gone},
		"seccomp of a container":             {ctr + "c", nil, gone},
		"seccomp of another container":       {ctr + "d", nil, ""},
		"seccomp of a container with field": {ctr + "c", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: profile}
		}, ""},
	} {
		p := minimal()
		p.Annotations = map[string]string{c.annotation: "x"}
		if c.change != nil {
			c.change(p)
		}
		var want texts
		if c.want != "" {
			want = texts{"metadata.annotations[" + c.annotation + "]" + c.want}
		}
		t.Run(name, func(t *testing.T) { sameTexts(t, PodWarnings(p, nil), want) })
	}
}
