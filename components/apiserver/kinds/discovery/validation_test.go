package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

type endpoint = discoveryv1.Endpoint

// addressed is a slice with one endpoint of these addresses.
func addressed(kind discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{AddressType: kind, Endpoints: []endpoint{{Addresses: addresses}}}
}

// sameErrors compares errors to how each of those wanted begins.
func sameErrors(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	texts := make([]string, len(got))
	for i, err := range got {
		texts[i] = err.Error()
	}
	if !slices.EqualFunc(texts, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidateAddresses(t *testing.T) {
	const v4, v6, fqdn = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN
	const list = "endpoints[0].addresses"
	const at = list + "[0]"
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("10.0.0.%d", i))
		}
		return out
	}
	for _, test := range []struct {
		name  string
		slice *discoveryv1.EndpointSlice
		want  []string
	}{
		{"IPv4", addressed(v4, "10.0.0.1"), nil},
		{"IPv6", addressed(v6, "fd00::1"), nil},
		{"name", addressed(fqdn, "a.example.com"), nil},
		{"no type", addressed("", "10.0.0.1"), []string{"addressType: Required value"}},
		{"unknown type", addressed("MAC", "10.0.0.1"), []string{
			`addressType: Unsupported value: "MAC": supported values: "FQDN", "IPv4", "IPv6"`}},
		{"none", addressed(v4), []string{list + ": Required value: must contain at least 1 address"}},
		{"most", addressed(v4, many(maxAddresses)...), nil},
		{"too many", addressed(v4, many(maxAddresses+1)...), []string{list + ": Too many: 101: must have at most 100"}},
		{"no address", addressed(v4, "a"), []string{at + `: Invalid value: "a": must be a valid IP address`}},
		{"IPv6 for IPv4", addressed(v4, "fd00::1"), []string{list + `: Invalid value: "fd00::1": must be an IPv4`}},
		{"IPv4 for IPv6", addressed(v6, "10.0.0.1"), []string{list + `: Invalid value: "10.0.0.1": must be an IPv6`}},
		{"IPv6 in another form", addressed(v6, "FD00::1"), []string{at + `: Invalid value: "FD00::1": must be in`}},
		{"unspecified", addressed(v4, "0.0.0.0"), []string{
			at + `: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`}},
		{"loopback", addressed(v4, "127.0.0.1"), []string{at + `: Invalid value: "127.0.0.1": may not be in the loop`}},
		{"link-local", addressed(v6, "fe80::1"), []string{at + `: Invalid value: "fe80::1": may not be in the link-`}},
		{"link-local multicast", addressed(v4, "224.0.0.1"), []string{
			at + `: Invalid value: "224.0.0.1": may not be in the link-local multicast range`}},
		{"no name", addressed(fqdn, "A."), []string{at + `: Invalid value: "A": a lowercase RFC 1123 subdomain`}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, Validate(test.slice, nil), test.want) })
	}
}

func TestValidateEndpoints(t *testing.T) {
	zones := func(names ...string) *discoveryv1.EndpointHints {
		h := &discoveryv1.EndpointHints{}
		for _, name := range names {
			h.ForZones = append(h.ForZones, discoveryv1.ForZone{Name: name})
		}
		return h
	}
	nodes := func(names ...string) *discoveryv1.EndpointHints {
		h := &discoveryv1.EndpointHints{}
		for _, name := range names {
			h.ForNodes = append(h.ForNodes, discoveryv1.ForNode{Name: name})
		}
		return h
	}
	eight := strings.Split("abcdefgh", "")
	const hints = "endpoints[0].hints."
	for _, test := range []struct {
		name     string
		endpoint endpoint
		want     []string
	}{
		{"node and host", endpoint{NodeName: ptr.To("n.example.com"), Hostname: ptr.To("h")}, nil},
		{"bad node", endpoint{NodeName: ptr.To("N")}, []string{`endpoints[0].nodeName: Invalid value: "N"`}},
		{"bad host", endpoint{Hostname: ptr.To("h.example.com")},
			[]string{`endpoints[0].hostname: Invalid value: "h.example.com": must not contain dots`}},
		{"most zones", endpoint{Hints: zones(eight...)}, nil},
		{"too many zones", endpoint{Hints: zones(append(eight, "i")...)}, []string{hints + "forZones: Too many: 9"}},
		{"zones", endpoint{Hints: zones("a", "b!", "a")}, []string{
			hints + `forZones[1].name: Invalid value: "b!"`, hints + `forZones[2].name: Duplicate value: "a"`}},
		{"most nodes", endpoint{Hints: nodes(eight...)}, nil},
		{"too many nodes", endpoint{Hints: nodes(append(eight, "i")...)}, []string{hints + "forNodes: Too many: 9"}},
		{"nodes", endpoint{Hints: nodes("a", "B", "a")}, []string{
			hints + `forNodes[1].name: Invalid value: "B"`, hints + `forNodes[2].name: Duplicate value: "a"`}},
		{"a node called like a zone", endpoint{Hints: &discoveryv1.EndpointHints{
			ForZones: zones("a").ForZones, ForNodes: nodes("a").ForNodes}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.endpoint.Addresses = []string{"10.0.0.1"}
			s := addressed(discoveryv1.AddressTypeIPv4)
			s.Endpoints = []endpoint{test.endpoint}
			sameErrors(t, Validate(s, nil), test.want)
		})
	}
	good := endpoint{Addresses: []string{"10.0.0.1"}}
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	s.Endpoints = slices.Repeat([]endpoint{good}, maxEndpoints)
	sameErrors(t, Validate(s, nil), nil)
	s.Endpoints = append(s.Endpoints, good)
	sameErrors(t, Validate(s, nil), []string{"endpoints: Too many: 1001: must have at most 1000 items"})
}

func TestValidatePorts(t *testing.T) {
	tcp, other := ptr.To(corev1.ProtocolTCP), ptr.To(corev1.Protocol("ICMP"))
	port := func(name string, protocol *corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: protocol}
	}
	of := func(application string) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Protocol: tcp, AppProtocol: &application}
	}
	for _, test := range []struct {
		name  string
		ports []discoveryv1.EndpointPort
		want  []string
	}{
		{"good", []discoveryv1.EndpointPort{port("", tcp), port("a", tcp), port("b", ptr.To(corev1.ProtocolSCTP))},
			nil},
		{"applications", []discoveryv1.EndpointPort{of("kubernetes.io/h2c")}, nil},
		{"bad application", []discoveryv1.EndpointPort{of("a b")},
			[]string{`ports[0].appProtocol: Invalid value: "a b"`}},
		{"bad name", []discoveryv1.EndpointPort{port("A", tcp)}, []string{`ports[0].name: Invalid value: "A"`}},
		{"names twice", []discoveryv1.EndpointPort{port("a", tcp), port("a", ptr.To(corev1.ProtocolUDP))},
			[]string{`ports[1].name: Duplicate value: "a"`}},
		{"two without names", []discoveryv1.EndpointPort{{Protocol: tcp}, port("", tcp)},
			[]string{`ports[1].name: Duplicate value: ""`}},
		{"no protocol", []discoveryv1.EndpointPort{port("a", nil)}, []string{"ports[0].protocol: Required value"}},
		{"unknown protocol", []discoveryv1.EndpointPort{port("a", other)}, []string{
			`ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`}},
		{"too many", make([]discoveryv1.EndpointPort, maxPorts+1), []string{"ports: Too many: 20001"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: test.ports}
			sameErrors(t, Validate(s, nil), test.want)
		})
	}
}

// TestValidateUpdate: bad endpoints that an older server took may stay as they are, and the type of addresses stays.
func TestValidateUpdate(t *testing.T) {
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	const bad = `endpoints[0].addresses[0]: Invalid value: "127.0.0.1"`
	sameErrors(t, ValidateUpdate(addressed(v4, "127.0.0.1"), addressed(v4, "127.0.0.1")), nil)
	sameErrors(t, ValidateUpdate(addressed(v4, "127.0.0.1"), addressed(v4, "10.0.0.1")), []string{bad})
	sameErrors(t, ValidateUpdate(addressed(v6, "fd00::1"), addressed(v4, "10.0.0.1")),
		[]string{`addressType: Invalid value: "IPv6": field is immutable`})
}

// TestWarnings: ambiguous addresses are told of, but not to the controllers that copy them; FQDN when it is new.
func TestWarnings(t *testing.T) {
	const v4, fqdn = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeFQDN
	const zeros = "endpoints[0].addresses[0]: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\""
	const controller = "endpointslice-controller.k8s.io"
	const names = "spec.addressType: FQDN endpoints are deprecated"
	managed := func(by string, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		s.Labels = map[string]string{discoveryv1.LabelManagedBy: by}
		return s
	}
	for _, test := range []struct {
		name     string
		new, old *discoveryv1.EndpointSlice
		want     []string
	}{
		{"good", addressed(v4, "10.0.0.1"), nil, nil},
		{"leading zeros", addressed(v4, "010.0.0.1"), nil, []string{zeros}},
		{"of another", managed("me", addressed(v4, "010.0.0.1")), nil, []string{zeros}},
		{"of the controller", managed(controller, addressed(v4, "010.0.0.1")), nil, nil},
		{"of the mirroring", managed("endpointslicemirroring-controller.k8s.io", addressed(v4, "010.0.0.1")), nil, nil},
		{"names", managed(controller, addressed(fqdn, "a.example.com")), nil, []string{names}},
		{"names, again", managed(controller, addressed(fqdn, "a.example.com")), addressed(fqdn, "a.example.com"), nil},
	} {
		if got := Warnings(test.new, test.old); !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}

func TestDefault(t *testing.T) {
	s := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{}, {Name: ptr.To("a"),
		Protocol: ptr.To(corev1.ProtocolUDP)}}}
	Default(s)
	for i, want := range []struct {
		name     string
		protocol corev1.Protocol
	}{{"", corev1.ProtocolTCP}, {"a", corev1.ProtocolUDP}} {
		if p := s.Ports[i]; p.Name == nil || *p.Name != want.name || *p.Protocol != want.protocol || p.Port != nil {
			t.Errorf("port %d: %v", i, p)
		}
	}
}

// TestGenerationOfSlices: all that readers of endpoints look at counts as a change, annotations don't.
func TestGenerationOfSlices(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *discoveryv1.EndpointSlice)
		want   int64
	}{
		"nothing":     {func(*discoveryv1.EndpointSlice) {}, 1},
		"annotations": {func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"a": "b"} }, 1},
		"labels":      {func(s *discoveryv1.EndpointSlice) { s.Labels = map[string]string{"a": "b"} }, 2},
		"endpoints":   {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = ptr.To("z") }, 2},
		"ports":       {func(s *discoveryv1.EndpointSlice) { s.Ports = make([]discoveryv1.EndpointPort, 1) }, 2},
		"type":        {func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, 2},
	} {
		old := addressed(discoveryv1.AddressTypeIPv4, "10.0.0.1")
		old.ObjectMeta = metav1.ObjectMeta{Generation: 1}
		obj := old.DeepCopy()
		test.change(obj)
		endpointSlices().Strategy.PrepareUpdate(t.Context(), obj, old)
		if obj.Generation != test.want {
			t.Errorf("%s: generation %d, want %d", name, obj.Generation, test.want)
		}
	}
}

// TestTopologyFromV1beta1: the zone has a field of its own in v1, and the host is left out where the node is named.
func TestTopologyFromV1beta1(t *testing.T) {
	for _, test := range []struct {
		name     string
		topology map[string]string
		node     *string
		zone     *string
		rest     map[string]string
	}{
		{"none", nil, nil, nil, nil},
		{"zone", map[string]string{corev1.LabelTopologyZone: "z"}, nil, ptr.To("z"), nil},
		{"host is the node", map[string]string{corev1.LabelHostname: "n"}, ptr.To("n"), nil, nil},
		{"host is another", map[string]string{corev1.LabelHostname: "m", "a": "b"}, ptr.To("n"), nil,
			map[string]string{corev1.LabelHostname: "m", "a": "b"}},
		{"host alone", map[string]string{corev1.LabelHostname: "n"}, nil, nil,
			map[string]string{corev1.LabelHostname: "n"}},
	} {
		before := len(test.topology)
		e := FromV1beta1(&discoveryv1beta1.EndpointSlice{Endpoints: []discoveryv1beta1.Endpoint{
			{Topology: test.topology, NodeName: test.node}}}).Endpoints[0]
		if !ptr.Equal(e.Zone, test.zone) || !ptr.Equal(e.NodeName, test.node) ||
			fmt.Sprint(e.DeprecatedTopology) != fmt.Sprint(test.rest) || len(test.topology) != before {
			t.Errorf("%s: got %v", test.name, e)
		}
	}
}
