package compile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/proxy/model"
)

// world is a Tracker, its objects, and its ports as a reader of its Changes knows them.
type world struct {
	tracker  *Tracker
	node     Node
	services map[types.NamespacedName]*v1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice
	ports    map[model.PortKey]model.ServicePort
}

func (w *world) change(r *rand.Rand) {
	service := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("svc-", r.IntN(4))}
	name := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("slice-", r.IntN(6))}
	switch r.IntN(12) {
	case 0:
		delete(w.services, service)
		w.tracker.DeleteService(service)
	case 1:
		delete(w.slices, name)
		w.tracker.DeleteSlice(name)
	case 2:
		w.node.Zone = pick(r, "a", "b", "")
		w.tracker.SetNode(w.node)
	case 3, 4, 5:
		svc := randomService(r, service)
		w.services[service] = svc
		w.tracker.SetService(svc)
	default:
		s := randomSlice(r, name, service.Name)
		w.slices[name] = s
		w.tracker.SetSlice(s)
	}
}

func randomService(r *rand.Rand, name types.NamespacedName) *v1.Service {
	svc := service(pick(r, plain, plain, externalLocal, internalLocal, func(svc *v1.Service) {
		svc.Labels = map[string]string{serviceProxyNameLabel: "other"}
	}, func(svc *v1.Service) {
		externalLocal(svc)
		svc.Spec.Type, svc.Spec.HealthCheckNodePort = v1.ServiceTypeLoadBalancer, 31000
	}))
	svc.Name = name.Name
	if r.IntN(3) == 0 {
		svc.Spec.Ports = append(svc.Spec.Ports, v1.ServicePort{Name: "other", Port: 90, Protocol: v1.ProtocolTCP})
	}
	return svc
}

func randomSlice(r *rand.Rand, name types.NamespacedName, service string) *discoveryv1.EndpointSlice {
	s := slice()
	for range r.IntN(4) {
		unchanged := func(*discoveryv1.Endpoint) {}
		change := pick(r, unchanged, state(false, true, true), forZone("a"), forZone("b"), forNode("here"))
		s.Endpoints = append(s.Endpoints, endpoint(fmt.Sprint("10.1.0.", r.IntN(5)), pick(r, "here", "there"), change))
	}
	s.Name = name.Name
	s.Labels[discoveryv1.LabelServiceName] = service
	if r.IntN(8) == 0 {
		s.Labels[v1.IsHeadlessService] = ""
	}
	return s
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// fresh compiles all objects from scratch.
func (w *world) fresh() []model.ServicePort {
	var ports []model.ServicePort
	for name, svc := range w.services {
		var of []*discoveryv1.EndpointSlice
		for _, s := range w.slices {
			if s.Labels[discoveryv1.LabelServiceName] == name.Name {
				of = append(of, s)
			}
		}
		ports = append(ports, Compile(svc, of, w.node)...)
	}
	sortPorts(ports)
	return ports
}

func withoutLocal(ports []model.ServicePort, family v1.IPFamily) NoLocalEndpoints {
	var count NoLocalEndpoints
	for _, p := range ports {
		if p.Key.Family != family || !p.HasAnyEndpoint || len(p.LocalEndpoints) > 0 {
			continue
		}
		if p.InternalLocal {
			count.Internal++
		}
		if p.ExternalLocal {
			count.External++
		}
	}
	return count
}

func TestTrackerGivesWhatCompileGives(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{
			tracker: New(here, ""), node: here,
			services: map[types.NamespacedName]*v1.Service{},
			slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
			ports:    map[model.PortKey]model.ServicePort{},
		}
		for range 30 {
			for range r.IntN(4) {
				w.change(r)
			}
			changes := w.tracker.Take()
			for _, p := range changes.Updated {
				if old, ok := w.ports[p.Key]; ok && reflect.DeepEqual(old, p) {
					t.Fatalf("seed %d: %v is updated without a difference", seed, p.Key)
				}
				w.ports[p.Key] = p
			}
			for _, key := range changes.Deleted {
				delete(w.ports, key)
			}
			known := slices.Collect(maps.Values(w.ports))
			sortPorts(known)
			want := w.fresh()
			if len(want)+len(known) > 0 && !reflect.DeepEqual(known, want) {
				t.Fatalf("seed %d: changes give\n%+v, want\n%+v", seed, known, want)
			}
			for _, family := range []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} {
				if got, want := w.tracker.NoLocalEndpoints(family), withoutLocal(want, family); got != want {
					t.Fatalf("seed %d: %+v ports of %s lack local endpoints, want %+v", seed, got, family, want)
				}
			}
			if all := w.tracker.All(); len(want)+len(all) > 0 && !reflect.DeepEqual(all, want) {
				t.Fatalf("seed %d: All gives\n%+v, want\n%+v", seed, all, want)
			}
		}
	}
}

func TestHealthChecksAndServingIPs(t *testing.T) {
	tracker := New(here, "")
	svc := service(func(svc *v1.Service) {
		externalLocal(svc)
		svc.Spec.Type, svc.Spec.HealthCheckNodePort = v1.ServiceTypeLoadBalancer, 31000
		svc.Spec.Ports = append(svc.Spec.Ports, v1.ServicePort{Name: "other", Port: 90, Protocol: v1.ProtocolTCP})
	})
	tracker.SetService(svc)
	tracker.SetSlice(slice(
		endpoint("10.1.0.1", "here"), endpoint("10.1.0.2", "here", state(false, true, true)),
		endpoint("10.1.0.3", "there", forZone("b")), endpoint("10.1.0.4", "here", state(false, false, false)),
	))
	changes := tracker.Take()
	if len(changes.Updated) != 2 || changes.UDP {
		t.Errorf("changes: %+v", changes)
	}
	name := types.NamespacedName{Namespace: "ns", Name: "svc"}
	if got := tracker.HealthChecks()[name]; got != (HealthCheck{Port: 31000, LocalEndpoints: 1}) {
		t.Errorf("health check: %+v", got)
	}
	if got := fmt.Sprint(tracker.ServingIPs(changes.Updated[0].Key)); got != "[10.1.0.1 10.1.0.2 10.1.0.3]" {
		t.Errorf("serving: %s", got)
	}
	tracker.DeleteService(name)
	changes = tracker.Take()
	if len(changes.Deleted) != 2 || len(tracker.HealthChecks()) != 0 || !tracker.Take().Empty() {
		t.Errorf("after the deletion: %+v", changes)
	}
}

func TestProxyName(t *testing.T) {
	tracker := New(here, "mine")
	svc := service(plain)
	tracker.SetService(svc)
	if !tracker.Take().Empty() {
		t.Error("a Service of the default proxy is compiled")
	}
	named := svc.DeepCopy()
	named.Labels = map[string]string{serviceProxyNameLabel: "mine"}
	tracker.SetService(named)
	if len(tracker.Take().Updated) != 1 {
		t.Error("the proxy's own Service is not compiled")
	}
}
