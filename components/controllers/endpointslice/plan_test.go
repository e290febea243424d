package endpointslice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func service() *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web", Labels: map[string]string{"team": "a"}},
		Spec: v1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Selector: map[string]string{"app": "web"},
			Ports: []v1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080),
				Protocol: v1.ProtocolTCP}},
		},
	}
}

func pod(i int, ready bool) *v1.Pod {
	status := v1.ConditionFalse
	if ready {
		status = v1.ConditionTrue
	}
	ip := fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i))},
		Spec: v1.PodSpec{NodeName: "n1",
			Containers: []v1.Container{{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 9000 + int32(i%2),
				Protocol: v1.ProtocolTCP}}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}},
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: status}}},
	}
}

// world applies plans as the API server would.
type world struct {
	o     observed
	names int
}

func (w *world) apply(p plan) int {
	for _, slice := range p.create {
		w.names++
		slice.Name = fmt.Sprint(slice.GenerateName, w.names)
		w.o.slices = append(w.o.slices, slice)
	}
	for _, changed := range p.update {
		for i, slice := range w.o.slices {
			if slice.Name == changed.Name {
				w.o.slices[i] = changed
			}
		}
	}
	for _, gone := range p.delete {
		for i, slice := range w.o.slices {
			if slice.Name == gone.Name {
				w.o.slices = append(w.o.slices[:i:i], w.o.slices[i+1:]...)
				break
			}
		}
	}
	return len(p.create) + len(p.update) + len(p.delete)
}

// check holds the slices to what a reader may rely on.
func (w *world) check(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, slice := range w.o.slices {
		if len(slice.Endpoints) > w.o.limit {
			t.Fatalf("%s has %d endpoints", slice.Name, len(slice.Endpoints))
		}
		if len(slice.Endpoints) == 0 && len(w.o.slices) > 1 {
			t.Fatalf("%s is empty, beside %d others", slice.Name, len(w.o.slices)-1)
		}
		for _, endpoint := range slice.Endpoints {
			if seen[endpoint.Addresses[0]] {
				t.Fatalf("%s is told twice", endpoint.Addresses[0])
			}
			seen[endpoint.Addresses[0]] = true
		}
	}
	if len(seen) != len(w.o.pods) || len(w.o.slices) == 0 {
		t.Fatalf("%d of %d pods in %d slices", len(seen), len(w.o.pods), len(w.o.slices))
	}
	if n := w.apply(decide(w.o)); n != 0 {
		t.Fatalf("not stable: %d more writes", n)
	}
}

func TestPacking(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for round := range 20 {
		w := &world{o: observed{service: service(), limit: 10}}
		for range 30 {
			w.o.pods = nil
			for i := range random.IntN(60) {
				if random.IntN(4) > 0 {
					w.o.pods = append(w.o.pods, pod(i, random.IntN(2) == 0))
				}
			}
			if round%2 == 1 { // half of the pods listen elsewhere
				w.o.service.Spec.Ports[0].TargetPort = intstr.FromString("web")
			}
			w.apply(decide(w.o))
			w.check(t)
		}
	}
}

func TestOneChangeOneWrite(t *testing.T) {
	w := &world{o: observed{service: service(), limit: 100}}
	for i := range 250 {
		w.o.pods = append(w.o.pods, pod(i, true))
	}
	w.apply(decide(w.o))
	if len(w.o.slices) != 3 {
		t.Fatalf("%d slices for 250 endpoints", len(w.o.slices))
	}
	w.o.pods[7] = pod(7, false)
	p := decide(w.o)
	if len(p.update) != 1 || len(p.create)+len(p.delete) != 0 {
		t.Fatalf("one pod changed: %d creates, %d updates, %d deletes", len(p.create), len(p.update), len(p.delete))
	}
	w.apply(p)
	w.o.pods = append(w.o.pods, pod(250, true))
	if p = decide(w.o); len(p.update) != 1 || len(p.create) != 0 || len(p.update[0].Endpoints) != 51 {
		t.Fatalf("one pod more: %d creates, %d updates", len(p.create), len(p.update))
	}
}

func TestConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		ready, terminating, publish bool
		want                        string
	}{
		"ready":               {ready: true, want: "true true false"},
		"not ready":           {want: "false false false"},
		"terminating, serves": {ready: true, terminating: true, want: "false true true"},
		"terminating":         {terminating: true, want: "false false true"},
		"published anyway":    {publish: true, terminating: true, want: "true false true"},
	} {
		p := pod(1, tc.ready)
		if tc.terminating {
			p.DeletionTimestamp = &metav1.Time{}
		}
		s := service()
		s.Spec.PublishNotReadyAddresses = tc.publish
		c := decide(observed{service: s, pods: []*v1.Pod{p}, limit: 100}).create[0].Endpoints[0].Conditions
		if got := fmt.Sprint(*c.Ready, *c.Serving, *c.Terminating); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestHeadlessAndDualStack(t *testing.T) {
	s := service()
	s.Spec.ClusterIP = v1.ClusterIPNone
	s.Spec.Ports = nil
	s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	p := pod(1, true)
	p.Spec.Hostname, p.Spec.Subdomain = "first", "web"
	p.Status.PodIPs = append(p.Status.PodIPs, v1.PodIP{IP: "fd00::1"})
	plan := decide(observed{service: s, pods: []*v1.Pod{p}, limit: 100, nodes: map[string]*v1.Node{
		"n1": {ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1.LabelTopologyZone: "z1"}}},
	}})
	if len(plan.create) != 2 {
		t.Fatalf("%d slices", len(plan.create))
	}
	for i, want := range []struct {
		family  discovery.AddressType
		address string
	}{{discovery.AddressTypeIPv4, "10.1.0.2"}, {discovery.AddressTypeIPv6, "fd00::1"}} {
		slice := plan.create[i]
		e := slice.Endpoints[0]
		if slice.AddressType != want.family || e.Addresses[0] != want.address || ptr.Deref(e.Hostname, "") != "first" ||
			ptr.Deref(e.Zone, "") != "z1" {
			t.Errorf("slice %+v", slice)
		}
		if _, headless := slice.Labels[v1.IsHeadlessService]; !headless || slice.Labels["team"] != "a" ||
			slice.Labels[discovery.LabelManagedBy] != managedBy {
			t.Errorf("labels %v", slice.Labels)
		}
	}
}

func TestFamilyDropped(t *testing.T) {
	s := service()
	s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	w := &world{o: observed{service: s, limit: 100}}
	w.apply(decide(w.o))
	if len(w.o.slices) != 2 {
		t.Fatalf("%d placeholders", len(w.o.slices))
	}
	s.Spec.IPFamilies = s.Spec.IPFamilies[:1]
	w.apply(decide(w.o))
	if len(w.o.slices) != 1 || w.o.slices[0].AddressType != discovery.AddressTypeIPv4 {
		t.Fatalf("%d slices left", len(w.o.slices))
	}
}

// A pod whose node is not there is no endpoint, unless the Service publishes what is not ready, too.
func TestPodsWithoutNode(t *testing.T) {
	pod := func(name, node, ip string, phase v1.PodPhase) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{NodeName: node},
			Status: v1.PodStatus{Phase: phase}}
		if ip != "" {
			p.Status.PodIPs = []v1.PodIP{{IP: ip}}
		}
		return p
	}
	s := service()
	o := observed{service: s, nodes: map[string]*v1.Node{"n": {}}, pods: []*v1.Pod{
		pod("good", "n", "10.0.0.1", v1.PodRunning), pod("gone-node", "m", "10.0.0.2", v1.PodRunning),
		pod("no-node", "", "10.0.0.3", v1.PodRunning), pod("ended", "m", "10.0.0.4", v1.PodSucceeded),
		pod("waiting", "", "", v1.PodPending),
	}}
	names := func(all []*v1.Pod) (out string) {
		for _, p := range all {
			out += p.Name + " "
		}
		return out
	}
	kept, homeless := withNode(o)
	if names(kept) != "good " || names(homeless) != "gone-node no-node " {
		t.Errorf("kept %s; homeless %s", names(kept), names(homeless))
	}
	s.Spec.PublishNotReadyAddresses = true
	if kept, homeless = withNode(o); len(kept) != len(o.pods) || len(homeless) != 0 {
		t.Errorf("published: kept %s; homeless %s", names(kept), names(homeless))
	}
}
