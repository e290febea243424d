package endpointslice

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

// TestHints: only endpoints that are ready, of a known zone or node, get hints, by the Service's preference.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		preference string
		ready      bool
		zone, node string
		want       string
	}{
		{"", true, "z", "n", "none"},
		{"PreferClose", true, "z", "n", "zones [{z}] nodes []"},
		{"PreferSameZone", true, "z", "n", "zones [{z}] nodes []"},
		{"PreferSameNode", true, "z", "n", "zones [{z}] nodes [{n}]"},
		{"PreferSameNode", true, "", "n", "zones [] nodes [{n}]"},
		{"PreferClose", true, "", "n", "none"},
		{"PreferClose", false, "z", "n", "none"},
		{"PreferSameNode", false, "z", "n", "none"},
		{"PreferSomethingNew", true, "z", "n", "none"},
	} {
		s := service()
		if c.preference != "" {
			s.Spec.TrafficDistribution = &c.preference
		}
		e := &discovery.Endpoint{Conditions: discovery.EndpointConditions{Ready: &c.ready}}
		if c.zone != "" {
			e.Zone = &c.zone
		}
		if c.node != "" {
			e.NodeName = &c.node
		}
		got := "none"
		if h := hints(s, e); h != nil {
			got = fmt.Sprintf("zones %v nodes %v", h.ForZones, h.ForNodes)
		}
		if got != c.want {
			t.Errorf("%s, ready %v, zone %q, node %q: %s, want %s", c.preference, c.ready, c.zone, c.node, got, c.want)
		}
	}
}

func TestSliceLabels(t *testing.T) {
	s := service()
	s.Labels = map[string]string{"team": "a", v1.IsHeadlessService: "stale", discovery.LabelManagedBy: "someone"}
	want := map[string]string{"team": "a", discovery.LabelServiceName: "web", discovery.LabelManagedBy: managedBy}
	if got := sliceLabels(s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	s.Spec.ClusterIP, want[v1.IsHeadlessService] = v1.ClusterIPNone, ""
	if got := sliceLabels(s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("headless: %v", got)
	}
	if s.Labels[v1.IsHeadlessService] != "stale" {
		t.Error("the Service was changed")
	}
}

// TestLabelsAreRepaired: a slice whose labels were changed is written again, with the same endpoints.
func TestLabelsAreRepaired(t *testing.T) {
	w := &world{o: observed{service: service(), limit: 100, pods: []*v1.Pod{pod(1, true)}}}
	w.apply(decide(w.o))
	w.o.slices[0].Labels["team"] = "b"
	p := decide(w.o)
	if len(p.update) != 1 || len(p.create)+len(p.delete) != 0 || p.update[0].Labels["team"] != "a" ||
		len(p.update[0].Endpoints) != 1 {
		t.Errorf("%+v", p)
	}
	w.apply(p)
	w.o.slices[0].DeletionTimestamp = &metav1.Time{}
	if p = decide(w.o); len(p.create) != 1 || len(p.update)+len(p.delete) != 0 {
		t.Errorf("a slice that is going: %+v", p)
	}
}

// TestPortsChange: all slices follow another port at once, none is created beside.
func TestPortsChange(t *testing.T) {
	w := &world{o: observed{service: service(), limit: 2}}
	for i := range 4 {
		w.o.pods = append(w.o.pods, pod(i, true))
	}
	w.apply(decide(w.o))
	w.o.service.Spec.Ports[0].TargetPort.IntVal = 9090
	w.o.service.Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c")
	p := decide(w.o)
	if len(p.update) != 2 || len(p.create)+len(p.delete) != 0 {
		t.Fatalf("%d creates, %d updates, %d deletes", len(p.create), len(p.update), len(p.delete))
	}
	for _, s := range p.update {
		port := s.Ports[0]
		if *port.Port != 9090 || *port.Name != "http" || *port.Protocol != v1.ProtocolTCP ||
			*port.AppProtocol != "kubernetes.io/h2c" {
			t.Errorf("%+v", port)
		}
	}
}

// TestLastPodGoes keeps one slice without endpoints and ports.
func TestLastPodGoes(t *testing.T) {
	w := &world{o: observed{service: service(), limit: 1, pods: []*v1.Pod{pod(1, true), pod(2, true)}}}
	w.apply(decide(w.o))
	ended := pod(2, true)
	ended.Status.Phase = v1.PodSucceeded
	w.o.pods = []*v1.Pod{ended}
	p := decide(w.o)
	if len(p.update) != 1 || len(p.delete) != 1 || len(p.create) != 0 ||
		len(p.update[0].Endpoints)+len(p.update[0].Ports) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestFollowsPodsAndNodes: an endpoint waits for its pod's node, and goes with the Service's selector.
func TestFollowsPodsAndNodes(t *testing.T) {
	p := pod(1, true)
	p.Labels = map[string]string{"app": "web"}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1.LabelTopologyZone: "z1"}}}
	client := runnertest.NewClient(service(), p)
	runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, 100, 0)
	})
	expect := func(want string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			all, err := client.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
			got := ""
			for _, s := range all.Items {
				for _, e := range s.Endpoints {
					got += fmt.Sprint(e.Addresses[0], " ", ptr.Deref(e.Zone, "-"), " ", *e.Conditions.Ready, ";")
				}
			}
			return err == nil && got == want, fmt.Sprint(got, err)
		})
	}
	expect("")
	if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("10.1.0.2 z1 true;")
	unready := pod(1, false)
	unready.Labels = p.Labels
	if _, err := client.CoreV1().Pods("ns").Update(t.Context(), unready, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("10.1.0.2 z1 false;")
	other := service()
	other.Spec.Selector = map[string]string{"app": "other"}
	if _, err := client.CoreV1().Services("ns").Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("")
}
