package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPorts(t *testing.T) {
	type port = corev1.ContainerPort
	with := func(list ...port) func(*corev1.PodSpec) {
		for i := range list {
			setString(&list[i].Protocol, "TCP")
		}
		return inContainer(func(c *corev1.Container) { c.Ports = list })
	}
	checkSpecs(t, "spec.containers[0].ports", []specCase{
		{"first and last", with(port{ContainerPort: 1}, port{ContainerPort: 65535}), nil},
		{"none", with(port{}), texts{"[0].containerPort: Required value"}},
		{"negative", with(port{ContainerPort: -1}),
			texts{"[0].containerPort: Invalid value: -1: must be between 1 and 65535, inclusive"}},
		{"host port", with(port{ContainerPort: 80, HostPort: 65536}),
			texts{"[0].hostPort: Invalid value: 65536: must be between 1 and 65535, inclusive"}},
		{"name", with(port{ContainerPort: 80, Name: "http-2"}), nil},
		{"long name", with(port{ContainerPort: 80, Name: "a234567890123456"}),
			texts{`[0].name: Invalid value: "a234567890123456": must be no more than 15 characters`}},
		{"name without a letter", with(port{ContainerPort: 80, Name: "80"}),
			texts{`[0].name: Invalid value: "80": must contain at least one letter (a-z)`}},
		{"name with two dashes", with(port{ContainerPort: 80, Name: "a--b"}),
			texts{`[0].name: Invalid value: "a--b": must not contain consecutive hyphens`}},
		{"one name", with(port{ContainerPort: 80, Name: "a"}, port{ContainerPort: 81, Name: "a"}),
			texts{`[1].name: Duplicate value: "a"`}},
		{"one bad name", with(port{ContainerPort: 80, Name: "A"}, port{ContainerPort: 81, Name: "A"}),
			texts{`[0].name: Invalid value: "A": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
				`[0].name: Invalid value: "A": must contain at least one letter (a-z)`,
				`[1].name: Invalid value: "A": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
				`[1].name: Invalid value: "A": must contain at least one letter (a-z)`}},
		{"no protocol", inContainer(func(c *corev1.Container) { c.Ports = []port{{ContainerPort: 80}} }),
			texts{"[0].protocol: Required value"}},
		{"SCTP", with(port{ContainerPort: 80, Protocol: "SCTP"}), nil},
		{"other protocol", with(port{ContainerPort: 80, Protocol: "tcp"}),
			texts{`[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"`}},
		{"one host port of two protocols", with(port{ContainerPort: 53, HostPort: 53},
			port{ContainerPort: 53, HostPort: 53, Protocol: "UDP"}), nil},
		{"one host port of two addresses", with(port{ContainerPort: 53, HostPort: 53, HostIP: "10.0.0.1"},
			port{ContainerPort: 53, HostPort: 53, HostIP: "10.0.0.2"}), nil},
		{"one host port of one address", with(port{ContainerPort: 53, HostPort: 53, HostIP: "10.0.0.1"},
			port{ContainerPort: 54, HostPort: 53, HostIP: "10.0.0.1"}),
			texts{`[1].hostPort: Duplicate value: "TCP/10.0.0.1/53"`}},
	})
}

// TestHostPortsOfContainers: those that run at the same time can't have the same; each init container runs alone.
func TestHostPortsOfContainers(t *testing.T) {
	of := func(name string, ports ...int32) corev1.Container {
		c := named(name)
		for i, port := range ports {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(i + 1), HostPort: port,
				Protocol: "TCP"})
		}
		return c
	}
	pair := func(init, main []corev1.Container) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.InitContainers, s.Containers = init, main }
	}
	checkSpecs(t, "spec.", []specCase{
		{"two containers", pair(nil, []corev1.Container{of("a", 80), of("b", 80)}),
			texts{`containers[1].ports[0].hostPort: Duplicate value: "TCP//80"`}},
		{"init container", pair([]corev1.Container{of("a", 80)}, []corev1.Container{of("b", 80)}), nil},
		{"two init containers", pair([]corev1.Container{of("a", 80), of("b", 80)}, []corev1.Container{of("c")}), nil},
		{"within the second init container", pair([]corev1.Container{of("a"), of("b", 80, 80)},
			[]corev1.Container{of("c")}),
			texts{`initContainers[0].ports[1].hostPort: Duplicate value: "TCP//80"`}}, // upstream names the first
		{"other port on the host's network", func(s *corev1.PodSpec) {
			s.HostNetwork, s.Containers = true, []corev1.Container{of("a", 1), of("b", 2)}
		}, texts{"containers[1].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"}},
		{"no port on the host's network", func(s *corev1.PodSpec) {
			s.HostNetwork, s.Containers = true,
				[]corev1.Container{of("a", 0)}
		}, nil},
	})
}
