package compile

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/proxy/model"
)

var here = Node{Name: "here", Zone: "a"}

func service(change func(*v1.Service)) *v1.Service {
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
			Ports: []v1.ServicePort{{Name: "p", Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
	change(svc)
	return svc
}

func slice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: "svc"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("p"), Port: ptr.To[int32](8080), Protocol: ptr.To(v1.ProtocolTCP)},
			{Name: ptr.To("other"), Port: ptr.To[int32](9090), Protocol: ptr.To(v1.ProtocolTCP)},
		},
		Endpoints: endpoints,
	}
}

func endpoint(ip, node string, changes ...func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: ptr.To(node)}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func state(ready, serving, terminating bool) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) {
		e.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
}

func forZone(zone string) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) {
		if e.Hints == nil {
			e.Hints = &discoveryv1.EndpointHints{}
		}
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
}

func forNode(node string) func(*discoveryv1.Endpoint) {
	return func(e *discoveryv1.Endpoint) {
		if e.Hints == nil {
			e.Hints = &discoveryv1.EndpointHints{}
		}
		e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: node})
	}
}

func internalLocal(svc *v1.Service) {
	svc.Spec.InternalTrafficPolicy = ptr.To(v1.ServiceInternalTrafficPolicyLocal)
}

func externalLocal(svc *v1.Service) {
	svc.Spec.Type = v1.ServiceTypeNodePort
	svc.Spec.Ports[0].NodePort = 30000
	svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
}

func plain(*v1.Service) {}

func TestEndpoints(t *testing.T) {
	dying, gone := state(false, true, true), state(false, false, true)
	notReady := state(false, false, false)
	for name, test := range map[string]struct {
		service        func(*v1.Service)
		node           Node
		endpoints      []discoveryv1.Endpoint
		cluster, local []string
		none           bool // HasAnyEndpoint is false
	}{
		"ready ones": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.2", "there"), endpoint("10.1.0.1", "here"), endpoint("10.1.0.3", "here", notReady),
		}, []string{"10.1.0.1", "10.1.0.2"}, nil, false},
		"terminating ones stand in": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", dying), endpoint("10.1.0.2", "there", gone),
		}, []string{"10.1.0.1"}, nil, false},
		"terminating ones yield": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", dying), endpoint("10.1.0.2", "there"),
		}, []string{"10.1.0.2"}, nil, false},
		"none usable": {externalLocal, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "here", notReady),
		}, nil, nil, true},
		"serving unset is true": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", func(e *discoveryv1.Endpoint) {
				e.Conditions.Ready, e.Conditions.Terminating = ptr.To(false), ptr.To(true)
			}),
		}, []string{"10.1.0.1"}, nil, false},
		"local stands in apart": {externalLocal, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "here", dying), endpoint("10.1.0.2", "there"),
		}, []string{"10.1.0.2"}, []string{"10.1.0.1"}, false},
		"internal Local has no cluster endpoints": {internalLocal, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "here"), endpoint("10.1.0.2", "there"),
		}, nil, []string{"10.1.0.1"}, false},
		"internal Local with remote ones only": {internalLocal, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.2", "there"),
		}, nil, nil, false},
		"zone hints": {externalLocal, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", forZone("a")), endpoint("10.1.0.2", "here", forZone("b")),
		}, []string{"10.1.0.1"}, []string{"10.1.0.2"}, false},
		"one without hint": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", forZone("a")), endpoint("10.1.0.2", "here"),
		}, []string{"10.1.0.1", "10.1.0.2"}, nil, false},
		"hints of endpoints that are not ready do not count": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", forZone("b")), endpoint("10.1.0.2", "here", forZone("a"), dying),
		}, []string{"10.1.0.1"}, nil, false},
		"zone unknown": {plain, Node{Name: "here"}, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "there", forZone("a")), endpoint("10.1.0.2", "here", forZone("b")),
		}, []string{"10.1.0.1", "10.1.0.2"}, nil, false},
		"node hints go first": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "x", forZone("a"), forNode("x")),
			endpoint("10.1.0.2", "here", forZone("a"), forNode("here")),
		}, []string{"10.1.0.2"}, nil, false},
		"node hints for others fall back to zones": {plain, here, []discoveryv1.Endpoint{
			endpoint("10.1.0.1", "x", forZone("a"), forNode("x")),
			endpoint("10.1.0.2", "y", forZone("b"), forNode("y")),
		}, []string{"10.1.0.1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Compile(service(test.service), []*discoveryv1.EndpointSlice{slice(test.endpoints...)}, test.node)[0]
			if got := texts(p.ClusterEndpoints); !slices.Equal(got, test.cluster) {
				t.Errorf("cluster endpoints %v, want %v", got, test.cluster)
			}
			if got := texts(p.LocalEndpoints); !slices.Equal(got, test.local) {
				t.Errorf("local endpoints %v, want %v", got, test.local)
			}
			if p.HasAnyEndpoint == test.none {
				t.Errorf("HasAnyEndpoint is %v", p.HasAnyEndpoint)
			}
		})
	}
}

func texts(endpoints []model.Endpoint) []string {
	var out []string
	for _, e := range endpoints {
		out = append(out, e.IP.String())
	}
	return out
}

func TestSkipped(t *testing.T) {
	label := func(key string) func(*v1.Service) {
		return func(svc *v1.Service) { svc.Labels = map[string]string{key: ""} }
	}
	for name, change := range map[string]func(*v1.Service){
		"headless":       func(svc *v1.Service) { svc.Spec.ClusterIP = v1.ClusterIPNone },
		"no address yet": func(svc *v1.Service) { svc.Spec.ClusterIP = "" },
		"ExternalName":   func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeExternalName },
		"other proxy":    label(serviceProxyNameLabel),
		"headless label": label(v1.IsHeadlessService),
	} {
		if ports := Compile(service(change), nil, here); len(ports) != 0 {
			t.Errorf("%s: %v", name, ports)
		}
	}
	headless := slice(endpoint("10.1.0.1", "here"))
	headless.Labels[v1.IsHeadlessService] = ""
	if p := Compile(service(plain), []*discoveryv1.EndpointSlice{headless}, here)[0]; p.HasAnyEndpoint {
		t.Error("headless slice is read")
	}
}

func TestServiceFields(t *testing.T) {
	svc := service(func(svc *v1.Service) {
		externalLocal(svc)
		svc.Spec.Type = v1.ServiceTypeLoadBalancer
		svc.Spec.ClusterIPs = []string{"10.0.0.1", "fd00::1"}
		svc.Spec.HealthCheckNodePort = 31000
		svc.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		svc.Spec.ExternalIPs = []string{"192.0.2.9", "fd01::9", "192.0.2.8", "192.0.2.9"}
		svc.Annotations = map[string]string{v1.AnnotationLoadBalancerSourceRangesKey: "10.2.0.1/16, 10.1.0.0/16"}
		svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
			{IP: "198.51.100.1"}, {IP: "198.51.100.2", IPMode: ptr.To(v1.LoadBalancerIPModeProxy)}, {Hostname: "x"},
		}
	})
	ports := Compile(svc, nil, here)
	if len(ports) != 2 {
		t.Fatalf("%d ports", len(ports))
	}
	key := model.PortKey{Port: "p", Protocol: v1.ProtocolTCP, Family: v1.IPv4Protocol}
	key.Namespace, key.Name = "ns", "svc"
	want := model.ServicePort{
		Key: key, ClusterIP: netip.MustParseAddr("10.0.0.1"), Port: 80, NodePort: 30000,
		ExternalIPs:     []netip.Addr{netip.MustParseAddr("192.0.2.8"), netip.MustParseAddr("192.0.2.9")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		SourceRanges:    []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")},
		SourceRangesSet: true, AffinitySeconds: 10800, ExternalLocal: true, HealthCheckNodePort: 31000,
	}
	comparers := cmp.Options{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if diff := cmp.Diff(want, ports[0], comparers); diff != "" {
		t.Error(diff)
	}
	six := ports[1]
	if six.Key.Family != v1.IPv6Protocol || len(six.SourceRanges) != 0 || !six.SourceRangesSet ||
		len(six.ExternalIPs) != 1 || six.LoadBalancerIPs != nil {
		t.Errorf("IPv6: %+v", six)
	}
}
