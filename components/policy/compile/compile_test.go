package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/components/policy/policytest"
)

// admits returns whether a model accepts a packet of a new connection.
func admits(m *model.Model, of policytest.Connection) bool {
	if _, local := m.Local[of.From]; local && of.From == of.To {
		return true
	}
	return admitsIn(m, model.Egress, of.From, of.To, of) && admitsIn(m, model.Ingress, of.To, of.From, of)
}

func admitsIn(m *model.Model, direction model.Direction, own, other netip.Addr, of policytest.Connection) bool {
	group, isolated := m.Pods[model.PodAddress{Direction: direction, Addr: own}]
	if !isolated {
		return true
	}
	for name := range strings.SplitSeq(group.Policies, ",") {
		matches := m.Policies[model.PolicyKey{Direction: direction, Namespace: group.Namespace, Name: name}]
		if slices.ContainsFunc(matches, func(match model.Match) bool { return meets(m, match, other, of) }) {
			return true
		}
	}
	return false
}

func meets(m *model.Model, match model.Match, other netip.Addr, of policytest.Connection) bool {
	port := uint16(of.Port)
	named := model.Element{Addr: of.To, Protocol: of.Protocol, Port: port}
	if match.Named != (model.SetID{}) && m.Sets[match.Named][named] == 0 {
		return false
	}
	if match.Protocol != "" && match.Protocol != of.Protocol {
		return false
	}
	in := func(r model.PortRange) bool { return r.First <= port && port <= r.Last }
	if len(match.Ports) > 0 && !slices.ContainsFunc(match.Ports, in) {
		return false
	}
	switch match.Peer.Kind {
	case model.KindAddresses:
		return m.Sets[match.Peer][model.Element{Addr: other}] > 0
	case model.KindRanges:
		for e := range m.Sets[match.Peer] {
			if e.Addr.Is4() == other.Is4() && !other.Less(e.Addr) && !e.To.Less(other) {
				return true
			}
		}
		return false
	}
	return true
}

// state holds the objects of an index, by name.
type state struct {
	namespaces map[string]labels.Set
	pods       map[types.NamespacedName]*v1.Pod
	policies   map[types.NamespacedName]*networkingv1.NetworkPolicy
}

func newState() *state {
	return &state{
		map[string]labels.Set{}, map[types.NamespacedName]*v1.Pod{},
		map[types.NamespacedName]*networkingv1.NetworkPolicy{},
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// step makes one random change, in the state and in the index.
func (s *state) step(r policytest.Random, x *Index) {
	switch r.IntN(8) {
	case 0:
		name := r.Namespace()
		s.namespaces[name] = r.Labels()
		x.SetNamespace(name, s.namespaces[name])
	case 1:
		if r.IntN(4) == 0 {
			name := r.Namespace()
			delete(s.namespaces, name)
			x.DeleteNamespace(name)
		}
	case 2, 3:
		policy := r.Policy()
		s.policies[nameOf(policy)] = policy
		if err := x.SetPolicy(policy); err != nil {
			panic(err)
		}
	case 4:
		name := nameOf(r.Policy())
		delete(s.policies, name)
		x.DeletePolicy(name)
	case 5:
		name := nameOf(r.Pod())
		delete(s.pods, name)
		x.DeletePod(name)
	default:
		pod := r.Pod()
		s.pods[nameOf(pod)] = pod
		if of, ok := PodOf(pod, policytest.Node); ok {
			x.SetPod(of)
		} else {
			x.DeletePod(nameOf(pod))
		}
	}
}

func (s *state) compile() *model.Model {
	var pods []Pod
	for _, pod := range s.pods {
		if of, ok := PodOf(pod, policytest.Node); ok {
			pods = append(pods, of)
		}
	}
	return Compile(slices.Collect(maps.Values(s.policies)), pods, s.namespaces, nil)
}

func (s *state) cluster() *policytest.Cluster {
	c := &policytest.Cluster{Namespaces: map[string]map[string]string{}}
	for name, of := range s.namespaces {
		c.Namespaces[name] = of
	}
	c.Pods = slices.Collect(maps.Values(s.pods))
	c.Policies = slices.Collect(maps.Values(s.policies))
	return c
}

// Whatever the order of changes, the model is that of a fresh start, and applying what Take returns leads to it.
func TestChangesGiveWhatAFreshStartGives(t *testing.T) {
	for seed := range uint64(300) {
		r := policytest.NewRandom(seed)
		s, x := newState(), New()
		replayed := &replay{map[model.PodAddress]model.Group{}, map[model.SetID]map[model.Element]struct{}{}}
		for range 40 {
			for range 1 + r.IntN(3) {
				s.step(r, x)
			}
			replayed.apply(t, x.Current(), x.Take())
			if want := s.compile(); !reflect.DeepEqual(x.Current(), want) {
				t.Fatalf("seed %d: got\n%+v\nwant\n%+v", seed, x.Current(), want)
			}
		}
	}
}

// replay is the state of a reader of changes.
type replay struct {
	pods map[model.PodAddress]model.Group
	sets map[model.SetID]map[model.Element]struct{}
}

func (r *replay) apply(t *testing.T, m *model.Model, c *model.Changes) {
	t.Helper()
	for at, before := range c.Pods {
		if r.pods[at] != before {
			t.Fatalf("%v was in %v, not %v", at, r.pods[at], before)
		}
		if r.pods[at] = m.Pods[at]; m.Pods[at] == (model.Group{}) {
			delete(r.pods, at)
		}
	}
	if !maps.Equal(r.pods, m.Pods) {
		t.Fatalf("changes lead to pods %v, not %v", r.pods, m.Pods)
	}
	for id, existed := range c.Sets {
		if _, known := r.sets[id]; known != existed {
			t.Fatalf("set %v existed: %v", id, existed)
		}
		if _, exists := m.Sets[id]; !exists {
			delete(r.sets, id)
		} else if !existed {
			r.sets[id] = map[model.Element]struct{}{}
		}
	}
	for id, elements := range c.Removed {
		for element := range elements {
			delete(r.sets[id], element)
		}
	}
	for id, elements := range c.Added {
		maps.Copy(r.sets[id], elements)
	}
	for id, want := range m.Sets {
		if got := r.sets[id]; len(got) != len(want) {
			t.Fatalf("changes lead to %v in %v, not %v", got, id, want)
		}
	}
}

// The model admits what the documentation allows.
func TestModelAgreesWithReference(t *testing.T) {
	outside := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1"),
	}
	for seed := range uint64(400) {
		r := policytest.NewRandom(seed)
		s, x := newState(), New()
		for range 60 {
			s.step(r, x)
		}
		addrs := slices.Clone(outside)
		for _, pod := range s.pods {
			for _, ip := range pod.Status.PodIPs {
				addrs = append(addrs, netip.MustParseAddr(ip.IP))
			}
		}
		cluster := s.cluster()
		for range 500 {
			of := policytest.Connection{
				From: addrs[r.IntN(len(addrs))], To: addrs[r.IntN(len(addrs))],
				Protocol: []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}[r.IntN(3)],
				Port:     []int32{53, 69, 75, 80, 81, 90, 8080, 9001}[r.IntN(8)],
			}
			if of.From.Is4() != of.To.Is4() {
				continue
			}
			if got, want := admits(x.Current(), of), cluster.Allowed(policytest.Node, of); got != want {
				t.Fatalf("seed %d: %+v is admitted: %v, want %v\n%s", seed, of, got, want, describe(cluster))
			}
		}
	}
}

func describe(c *policytest.Cluster) string {
	var out strings.Builder
	for _, policy := range c.Policies {
		fmt.Fprintf(&out, "%s/%s: %+v\n", policy.Namespace, policy.Name, policy.Spec)
	}
	for _, pod := range c.Pods {
		fmt.Fprintf(&out, "%s/%s %v on %s: %v\n", pod.Namespace, pod.Name, pod.Status.PodIPs,
			pod.Spec.NodeName, pod.Labels)
	}
	return out.String() + fmt.Sprint(c.Namespaces)
}
