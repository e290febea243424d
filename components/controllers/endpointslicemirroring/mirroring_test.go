package endpointslicemirroring

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func endpoints(port int32, ips ...string) *v1.Endpoints {
	e := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "e",
		Labels:      map[string]string{"a": "b"},
		Annotations: map[string]string{v1.LastAppliedConfigAnnotation: "{}", "note": "x"}}}
	subset := v1.EndpointSubset{Ports: []v1.EndpointPort{{Name: "p", Port: port, Protocol: v1.ProtocolTCP}}}
	for _, ip := range ips {
		subset.Addresses = append(subset.Addresses, v1.EndpointAddress{IP: ip})
	}
	e.Subsets = []v1.EndpointSubset{subset}
	return e
}

func service(selector map[string]string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"},
		Spec: v1.ServiceSpec{Selector: selector}}
}

func TestMirrored(t *testing.T) {
	elected, skipped := endpoints(1, "10.0.0.1"), endpoints(1, "10.0.0.1")
	elected.Annotations["control-plane.alpha.kubernetes.io/leader"] = "{}"
	skipped.Labels["endpointslice.kubernetes.io/skip-mirror"] = "true"
	for name, c := range map[string]struct {
		e    *v1.Endpoints
		s    *v1.Service
		want bool
	}{
		"kept by hand": {endpoints(1), service(nil), true},
		"selected":     {endpoints(1), service(map[string]string{"a": "b"}), false},
		"no service":   {endpoints(1), nil, false},
		"no endpoints": {nil, service(nil), false},
		"an election":  {elected, service(nil), false},
		"skipped":      {skipped, service(nil), false},
	} {
		if got := mirrored(c.e, c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDecide(t *testing.T) {
	mixed := endpoints(80, "10.0.0.1", "fd00::1", "nonsense")
	mixed.Subsets[0].NotReadyAddresses = []v1.EndpointAddress{{IP: "10.0.0.2", Hostname: "h"}}
	p := decide(mixed, nil, 1000)
	if len(p.create) != 2 || p.invalid != 1 || len(p.create[0].Endpoints) != 2 ||
		*p.create[0].Endpoints[1].Conditions.Ready || p.create[1].AddressType != discovery.AddressTypeIPv6 {
		t.Fatalf("%+v", p)
	}
	first := p.create[0]
	if first.Labels["a"] != "b" || first.Labels[discovery.LabelServiceName] != "db" ||
		first.Annotations["note"] != "x" || len(first.Annotations) != 1 {
		t.Errorf("metadata %+v", first.ObjectMeta)
	}
	current := p.create
	if p = decide(mixed, current, 1000); len(p.create)+len(p.update)+len(p.delete) != 0 {
		t.Errorf("settled, but %+v", p)
	}
	if p = decide(endpoints(81, "10.0.0.1"), current, 1000); len(p.create) != 0 || len(p.update) != 1 ||
		*p.update[0].Ports[0].Port != 81 || len(p.delete) != 1 {
		t.Errorf("another port: %+v", p)
	}
	if p = decide(nil, current, 1000); len(p.delete) != 2 {
		t.Errorf("not mirrored any more: %+v", p)
	}
	if p = decide(endpoints(80, "10.0.0.1", "10.0.0.2", "10.0.0.3"), nil, 2); p.dropped != 1 ||
		len(p.create[0].Endpoints) != 2 {
		t.Errorf("too many: %+v", p)
	}
}

func TestFollows(t *testing.T) {
	client := runnertest.NewClient(service(nil), endpoints(80, "10.0.0.1"))
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, 1000, 0) })
	count := func(want int) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			all, err := client.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
			return err == nil && len(all.Items) == want, fmt.Sprint(all)
		})
	}
	count(1)
	if _, err := client.CoreV1().Services("ns").Update(t.Context(), service(map[string]string{"a": "b"}),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	count(0)
}
