package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

// zoneNode is a ready node with CPUs, named as its zone.
func zoneNode(zone, cpu string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
}

// zoned is a world of nodes with 3, 3 and 2 CPUs, with n pods in turn on each.
func zoned(n int) (*world, *topology) {
	w := &world{o: observed{service: service(), limit: 4, nodes: map[string]*v1.Node{}}}
	w.o.service.Annotations = map[string]string{v1.AnnotationTopologyMode: "Auto"}
	for zone, cpu := range map[string]string{"a": "3", "b": "3", "c": "2"} {
		w.o.nodes[zone] = zoneNode(zone, cpu)
	}
	for i := range n {
		p := pod(i, true)
		p.Spec.NodeName = []string{"a", "b", "c"}[i%3]
		w.o.pods = append(w.o.pods, p)
	}
	t := newTopology()
	t.cache.SetNodes(klog.Background(), slices.Collect(maps.Values(w.o.nodes)))
	return w, t
}

// sync carries out a plan with hints, and tells the hints of each zone, the writes and the events.
func (w *world) sync(t *testing.T, topology *topology) (hints string, writes int, events string) {
	p := decide(w.o)
	for _, e := range topology.hint(t.Context(), "ns/web", w.o, &p) {
		events += e.EventType + " " + e.Reason + ": " + e.Message + "; "
	}
	writes = w.apply(p)
	count := map[string]int{}
	for _, slice := range w.o.slices {
		for _, e := range slice.Endpoints {
			if e.Hints != nil {
				for _, zone := range e.Hints.ForZones {
					count[zone.Name]++
				}
				for _, node := range e.Hints.ForNodes {
					count["node "+node.Name]++
				}
			}
		}
	}
	return strings.TrimPrefix(fmt.Sprint(count), "map"), writes, events
}

// TestTopologyHints: zones get endpoints in proportion to their CPUs, once, and all or none have hints.
func TestTopologyHints(t *testing.T) {
	w, topology := zoned(16)
	hints, writes, events := w.sync(t, topology)
	if hints != "[a:6 b:6 c:4]" || writes != 4 || !strings.HasPrefix(events, "Normal TopologyAwareHintsEnabled: ") {
		t.Fatalf("%s in %d writes: %s", hints, writes, events)
	}
	if hints, writes, events = w.sync(t, topology); writes != 0 || events != "" {
		t.Fatalf("not stable: %s in %d writes: %s", hints, writes, events)
	}
	w.o.pods[0].Status.Conditions[0].Status = v1.ConditionFalse
	if hints, _, events = w.sync(t, topology); events != "" || strings.Count(hints, ":") != 3 {
		t.Errorf("one pod not ready: %s: %s", hints, events)
	}
	for _, s := range w.o.slices {
		for _, e := range s.Endpoints {
			if !*e.Conditions.Ready && e.Hints != nil {
				t.Error("an endpoint that is not ready has hints")
			}
		}
	}
	w.o.pods = w.o.pods[:2]
	hints, _, events = w.sync(t, topology)
	if hints != "[]" || !strings.Contains(events, "Insufficient number of endpoints (1 endpoints, 3 zones)") {
		t.Errorf("too few endpoints: %s: %s", hints, events)
	}
}

// TestTopologyIsTakenBack with the annotation, and leaves the hints to the traffic distribution.
func TestTopologyIsTakenBack(t *testing.T) {
	w, topology := zoned(16)
	w.o.service.Spec.TrafficDistribution = ptr.To(v1.ServiceTrafficDistributionPreferSameNode)
	if hints, _, _ := w.sync(t, topology); hints != "[a:6 b:6 c:4]" {
		t.Errorf("beside a traffic distribution: %s", hints)
	}
	w.o.service.Annotations = map[string]string{v1.DeprecatedAnnotationTopologyAwareHints: "disabled",
		v1.AnnotationTopologyMode: "Auto"}
	hints, _, events := w.sync(t, topology)
	if hints != "[a:6 b:5 c:5 node a:6 node b:5 node c:5]" ||
		!strings.HasPrefix(events, "Warning TopologyAwareHintsDisabled: ") {
		t.Errorf("traffic distribution alone: %s: %s", hints, events)
	}
	w.o.service.Spec.TrafficDistribution = nil
	if hints, _, events = w.sync(t, topology); hints != "[]" || events != "" {
		t.Errorf("neither: %s: %s", hints, events)
	}
}

// TestTopologyConcerns: the nodes concern Services that are overloaded, and those that wait for hints.
func TestTopologyConcerns(t *testing.T) {
	w, topology := zoned(16)
	w.sync(t, topology)
	if got := topology.concerned(); len(got) != 0 {
		t.Errorf("as it was: %v", got)
	}
	w.o.nodes["c"] = zoneNode("c", "12")
	topology.cache.SetNodes(klog.Background(), slices.Collect(maps.Values(w.o.nodes)))
	if got := topology.concerned(); fmt.Sprint(got) != "[ns/web]" {
		t.Errorf("overloaded: %v", got)
	}
	delete(w.o.nodes["a"].Labels, v1.LabelTopologyZone)
	topology.cache.SetNodes(klog.Background(), slices.Collect(maps.Values(w.o.nodes)))
	hints, _, events := w.sync(t, topology)
	if hints != "[]" || !strings.Contains(events, "Insufficient Node information") {
		t.Errorf("a node without zone: %s: %s", hints, events)
	}
	if got := topology.concerned(); fmt.Sprint(got) != "[ns/web]" {
		t.Errorf("without hints: %v", got)
	}
	topology.forget("ns/web")
	if got := topology.concerned(); len(got) != 0 {
		t.Errorf("gone: %v", got)
	}
}

// TestTopologyFollowsNodes: hints come once the nodes are ready.
func TestTopologyFollowsNodes(t *testing.T) {
	s := service()
	s.Annotations = map[string]string{v1.AnnotationTopologyMode: "Auto"}
	client := runnertest.NewClient(s)
	for _, zone := range []string{"a", "b"} {
		n := zoneNode(zone, "2")
		if zone == "b" {
			n.Status.Conditions[0].Status = v1.ConditionFalse
		}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			p := pod(i+10*int(zone[0]), true)
			p.Labels, p.Spec.NodeName = map[string]string{"app": "web"}, zone
			if _, err := client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, 100, 0)
	})
	expect := func(endpoints, hinted int) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			all, err := client.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
			var have, with []discovery.Endpoint
			for _, slice := range all.Items {
				have = append(have, slice.Endpoints...)
			}
			for _, e := range have {
				if e.Hints != nil {
					with = append(with, e)
				}
			}
			return err == nil && len(have) == endpoints && len(with) == hinted, fmt.Sprint(have, err)
		})
	}
	expect(4, 0)
	if _, err := client.CoreV1().Nodes().Update(t.Context(), zoneNode("b", "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(4, 4)
}
