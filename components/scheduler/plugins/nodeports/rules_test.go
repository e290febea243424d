package nodeports

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// TestOverlap: two ports conflict on one address and protocol; the unspecified address is all of them.
func TestOverlap(t *testing.T) {
	port := func(ip string, protocol v1.Protocol, number int32) snapshot.Port {
		return snapshot.NewPod(schedulertest.Pod("p", "port=1", func(p *v1.Pod) {
			p.Spec.Containers[0].Ports[0] = v1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: number}
		})).Ports[0]
	}
	for name, c := range map[string]struct {
		a, b snapshot.Port
		want bool
	}{
		"alike":                {port("", v1.ProtocolTCP, 80), port("", v1.ProtocolTCP, 80), true},
		"no protocol is TCP":   {port("", "", 80), port("", v1.ProtocolTCP, 80), true},
		"SCTP and TCP":         {port("", v1.ProtocolSCTP, 80), port("", v1.ProtocolTCP, 80), false},
		"another port":         {port("", "", 80), port("", "", 81), false},
		"all and one address":  {port("0.0.0.0", "", 80), port("10.0.0.1", "", 80), true},
		"one address and none": {port("10.0.0.1", "", 80), port("", "", 80), true},
		"one address":          {port("10.0.0.1", "", 80), port("10.0.0.1", "", 80), true},
		"two addresses":        {port("10.0.0.1", "", 80), port("127.0.0.1", "", 80), false},
	} {
		if c.a.Overlaps(c.b) != c.want || c.b.Overlaps(c.a) != c.want {
			t.Errorf("%s: %v, %v", name, c.a.Overlaps(c.b), c.b.Overlaps(c.a))
		}
	}
}

// TestAnyContainer: all ports of a pod count, those of init containers that end do not.
func TestAnyContainer(t *testing.T) {
	several := func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 70}}}}
		p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}, {HostPort: 81}, {ContainerPort: 82}}},
			{Ports: []v1.ContainerPort{{HostPort: 90}}}}
	}
	s := schedulertest.Snapshot(schedulertest.Node("a", ""), schedulertest.Pod("there", "node=a", several))
	for spec, taken := range map[string]bool{"port=70": false, "port=80": true, "port=81": true, "port=82": false,
		"port=90": true} {
		if got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", spec, nil), s)["a"]; (got != "") != taken {
			t.Errorf("%s: %q", spec, got)
		}
	}
}

func TestHints(t *testing.T) {
	hints := queue.Hints{Name: Plugin{}.Hints()}
	p := snapshot.NewPod(schedulertest.Pod("p", "port=80", nil))
	gone := func(spec string) queue.Event {
		return queue.Event{Kind: queue.PodRemoved, OldPod: snapshot.NewPod(schedulertest.Pod("o", spec, nil))}
	}
	for name, c := range map[string]struct {
		e    queue.Event
		want bool
	}{
		"a node":              {queue.Event{Kind: queue.NodeAdded}, true},
		"the port's holder":   {gone("port=80"), true},
		"another port's":      {gone("port=81"), false},
		"a pod without ports": {gone(""), false},
		"labels of a node":    {queue.Event{Kind: queue.NodeLabels}, false},
	} {
		if got := hints.Helps(p, []string{Name}, c.e); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}
