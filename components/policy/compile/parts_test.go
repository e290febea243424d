package compile

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/policy/model"
)

func TestBlocks(t *testing.T) {
	type blocks = []*networkingv1.IPBlock
	block := func(cidr string, except ...string) *networkingv1.IPBlock {
		return &networkingv1.IPBlock{CIDR: cidr, Except: except}
	}
	for name, test := range map[string]struct {
		blocks blocks
		want   string
	}{
		"none":        {nil, ""},
		"one address": {blocks{block("10.0.0.7/32")}, "10.0.0.7-10.0.0.7"},
		"all": {blocks{block("0.0.0.0/0"), block("::/0")}, "0.0.0.0-255.255.255.255,::-ffff:ffff:ffff" +
			":ffff:ffff:ffff:ffff:ffff"},
		"in the middle":     {blocks{block("10.0.0.0/24", "10.0.0.8/29")}, "10.0.0.0-10.0.0.7,10.0.0.16-10.0.0.255"},
		"at both ends":      {blocks{block("10.0.0.0/24", "10.0.0.0/28", "10.0.0.240/28")}, "10.0.0.16-10.0.0.239"},
		"nested exceptions": {blocks{block("10.0.0.0/30", "10.0.0.0/31", "10.0.0.1/32")}, "10.0.0.2-10.0.0.3"},
		"all excepted":      {blocks{block("10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25")}, ""},
		"to the last":       {blocks{block("::/0", "8000::/1")}, "::-7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		"adjacent":          {blocks{block("10.0.1.0/24"), block("10.0.0.0/24")}, "10.0.0.0-10.0.1.255"},
		"one brings it back": {blocks{block("10.0.0.0/24", "10.0.0.0/25"), block("10.0.0.4/32")},
			"10.0.0.4-10.0.0.4,10.0.0.128-10.0.0.255"},
		"host bits":     {blocks{block("10.0.0.9/30")}, "10.0.0.8-10.0.0.11"},
		"leading zeros": {blocks{block("010.0.0.0/30", "10.000.0.1/32")}, "10.0.0.0-10.0.0.0,10.0.0.2-10.0.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := blocksID(test.blocks)
			if err != nil || id.Key != test.want {
				t.Errorf("got %q, %v, want %q", id.Key, err, test.want)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	number := func(first int32, last *int32, protocol *v1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: protocol, Port: ptr.To(intstr.FromInt32(first)), EndPort: last}
	}
	udp := ptr.To(v1.ProtocolUDP)
	numbers, named, err := readPorts([]networkingv1.NetworkPolicyPort{
		number(90, nil, nil), number(80, ptr.To(int32(85)), nil), number(86, nil, nil), number(82, nil, nil),
		{Port: ptr.To(intstr.FromString("http"))}, {Port: ptr.To(intstr.FromString("http"))},
		number(53, nil, udp), {Protocol: udp}, number(7, ptr.To(int32(9)), ptr.To(v1.ProtocolSCTP)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[v1.Protocol][]model.PortRange{
		v1.ProtocolTCP: {{First: 80, Last: 86}, {First: 90, Last: 90}}, v1.ProtocolUDP: nil,
		v1.ProtocolSCTP: {{First: 7, Last: 9}},
	}
	if !reflect.DeepEqual(numbers, want) {
		t.Errorf("numbers %v, want %v", numbers, want)
	}
	if !slices.Equal(named, []Port{{Name: "http", Protocol: v1.ProtocolTCP}}) {
		t.Errorf("named %v", named)
	}
}

func TestPolicyTypes(t *testing.T) {
	for name, test := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		want []model.Direction
	}{
		"none": {networkingv1.NetworkPolicySpec{}, []model.Direction{model.Ingress}},
		"none, egress rules": {networkingv1.NetworkPolicySpec{
			Egress: make([]networkingv1.NetworkPolicyEgressRule, 1),
		}, []model.Direction{model.Ingress, model.Egress}},
		"egress, though there are ingress rules": {networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Ingress:     make([]networkingv1.NetworkPolicyIngressRule, 1),
		}, []model.Direction{model.Egress}},
	} {
		if got := policyTypes(&test.spec); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// What can't be read of a policy allows nothing, and the rest of it holds.
func TestUnreadableParts(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}
	everywhere := networkingv1.IPBlock{CIDR: "everywhere"}
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	object.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{PodSelector: bad}, {}, {IPBlock: &everywhere}}},
		{Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(90)), EndPort: ptr.To(int32(80))}}},
	}
	p, err := readPolicy(object)
	if p == nil || len(p.directions[model.Ingress]) != 0 {
		t.Fatalf("the policy allows something: %+v", p)
	}
	for _, want := range []string{"Resembles", "selects nothing", "everywhere", "90 to 80"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell of %q: %v", want, err)
		}
	}
	good := networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/31"}}
	object.Spec.Ingress[0].From = append(object.Spec.Ingress[0].From, good)
	want := model.Match{Peer: model.SetID{Kind: model.KindRanges, Key: "10.0.0.0-10.0.0.1"}}
	p, err = readPolicy(object)
	if got := p.directions[model.Ingress]; err == nil || len(got) != 1 || !equalMatches(got[0], want) {
		t.Errorf("a block besides an unreadable one: %v, %v, want %v", got, err, want)
	}
	object.Spec.PodSelector = *bad
	if p, err := readPolicy(object); p != nil || err == nil {
		t.Errorf("a policy of unknown pods: %v, %v", p, err)
	}
}

func TestPodOf(t *testing.T) {
	running := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"},
		Spec:       v1.PodSpec{NodeName: "here"},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
		},
	}
	for name, test := range map[string]struct {
		change func(*v1.Pod)
		want   string // addresses; "-" for no part in policies
	}{
		"both families":          {func(*v1.Pod) {}, "[10.0.0.1 fd00::1]"},
		"podIP alone":            {func(p *v1.Pod) { p.Status.PodIPs = nil }, "[10.0.0.1]"},
		"node's network":         {func(p *v1.Pod) { p.Spec.HostNetwork = true }, "-"},
		"succeeded":              {func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }, "-"},
		"failed":                 {func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, "-"},
		"no address, here":       {func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodPending} }, "[]"},
		"no address, elsewhere":  {func(p *v1.Pod) { p.Status, p.Spec.NodeName = v1.PodStatus{}, "there" }, "-"},
		"unknown phase, running": {func(p *v1.Pod) { p.Status.Phase = v1.PodUnknown }, "[10.0.0.1 fd00::1]"},
	} {
		pod := running.DeepCopy()
		test.change(pod)
		got := "-"
		if of, ok := PodOf(pod, "here"); ok {
			var texts []string
			for _, addr := range of.Addrs {
				texts = append(texts, addr.String())
			}
			got = "[" + strings.Join(texts, " ") + "]"
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestNamedPortsOfContainers(t *testing.T) {
	port := func(name string, protocol v1.Protocol, number int32) v1.ContainerPort {
		return v1.ContainerPort{Name: name, Protocol: protocol, ContainerPort: number}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		NodeName: "here",
		InitContainers: []v1.Container{
			{Ports: []v1.ContainerPort{port("setup", "", 1)}},
			{
				RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
				Ports:         []v1.ContainerPort{port("mesh", "", 2), port("http", "", 3)},
			},
		},
		Containers: []v1.Container{
			{Ports: []v1.ContainerPort{port("http", "", 80), port("", "", 81)}},
			{Ports: []v1.ContainerPort{port("http", v1.ProtocolTCP, 82), port("http", v1.ProtocolUDP, 83)}},
		},
	}}
	of, _ := PodOf(pod, "here")
	want := []Port{{"http", v1.ProtocolTCP, 80}, {"http", v1.ProtocolUDP, 83}, {"mesh", v1.ProtocolTCP, 2}}
	if !slices.Equal(of.Ports, want) {
		t.Errorf("got %v, want %v", of.Ports, want)
	}
}
