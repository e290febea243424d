package nodeports

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

func TestFilter(t *testing.T) {
	const refused = "node(s) didn't have free ports for the requested pod ports"
	taken := schedulertest.Pod("taken", "node=a port=80",
		func(p *v1.Pod) { p.Spec.Containers[0].Ports[0].HostIP = "10.0.0.1" })
	s := schedulertest.Snapshot(schedulertest.Node("a", ""), schedulertest.Node("b", ""), taken)
	at := func(ip string, protocol v1.Protocol) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Ports[0].HostIP, p.Spec.Containers[0].Ports[0].Protocol = ip, protocol
		}
	}
	sidecar := func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}},
			RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}
	}
	cases := map[string]struct {
		spec   string
		change func(*v1.Pod)
		want   map[string]string
	}{
		"none":           {"", nil, map[string]string{}},
		"other port":     {"port=81", nil, map[string]string{}},
		"all addresses":  {"port=80", nil, map[string]string{"a": refused}},
		"same address":   {"port=80", at("10.0.0.1", v1.ProtocolTCP), map[string]string{"a": refused}},
		"other address":  {"port=80", at("10.0.0.2", v1.ProtocolTCP), map[string]string{}},
		"other protocol": {"port=80", at("", v1.ProtocolUDP), map[string]string{}},
		"of a sidecar":   {"", sidecar, map[string]string{"a": refused}},
	}
	for name, c := range cases {
		if got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", c.spec, c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
