package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/policy/model"
)

// policy is a NetworkPolicy as it was read. It is immutable.
type policy struct {
	namespace, name string
	pods            labels.Selector
	// directions has those that the policy applies to.
	directions map[model.Direction][]model.Match
	// selections are those of all sets that matches name, but for blocks.
	selections map[model.SetID]*selection
	blocks     map[model.SetID]struct{}
}

// peer is one side of a rule: any, a selection of pods, or blocks of addresses.
type peer struct {
	pods   *selection
	blocks model.SetID
}

// readPolicy returns nil where the pod selector of the policy is invalid. An invalid peer allows
// nothing and is named in the error.
func readPolicy(object *networkingv1.NetworkPolicy) (*policy, error) {
	pods, err := metav1.LabelSelectorAsSelector(&object.Spec.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.podSelector: %w", err)
	}
	p := &policy{
		namespace: object.Namespace, name: object.Name, pods: pods, directions: map[model.Direction][]model.Match{},
		selections: map[model.SetID]*selection{}, blocks: map[model.SetID]struct{}{},
	}
	var errs []error
	for _, direction := range policyTypes(&object.Spec) {
		matches := []model.Match{}
		for i, rule := range rulesOf(&object.Spec, direction) {
			of, err := p.rule(direction, rule)
			if err != nil {
				errs = append(errs, fmt.Errorf("spec.%s[%d]: %w", direction, i, err))
			}
			matches = append(matches, of...)
		}
		p.directions[direction] = matches
	}
	return p, errors.Join(errs...)
}

// policyTypes are those of the specification or, where it has none, ingress always and egress if there are rules of
// it.
func policyTypes(spec *networkingv1.NetworkPolicySpec) []model.Direction {
	if len(spec.PolicyTypes) == 0 {
		if len(spec.Egress) > 0 {
			return []model.Direction{model.Ingress, model.Egress}
		}
		return []model.Direction{model.Ingress}
	}
	var directions []model.Direction
	for _, of := range spec.PolicyTypes {
		switch of {
		case networkingv1.PolicyTypeIngress:
			directions = append(directions, model.Ingress)
		case networkingv1.PolicyTypeEgress:
			directions = append(directions, model.Egress)
		}
	}
	return directions
}

// rule of either direction.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(spec *networkingv1.NetworkPolicySpec, direction model.Direction) []rule {
	var rules []rule
	if direction == model.Ingress {
		for _, of := range spec.Ingress {
			rules = append(rules, rule{of.From, of.Ports})
		}
		return rules
	}
	for _, of := range spec.Egress {
		rules = append(rules, rule{of.To, of.Ports})
	}
	return rules
}

// rule returns the ways to be allowed by a rule: each peer with each protocol, and with each named port.
func (p *policy) rule(direction model.Direction, r rule) ([]model.Match, error) {
	peers, err := p.peers(r.peers)
	numbers, named, portErr := readPorts(r.ports)
	var matches []model.Match
	for _, from := range peers {
		if len(r.ports) == 0 {
			matches = append(matches, model.Match{Peer: p.use(from)})
		}
		for _, protocol := range slices.Sorted(maps.Keys(numbers)) {
			matches = append(matches, model.Match{Peer: p.use(from), Protocol: protocol, Ports: numbers[protocol]})
		}
		for _, port := range named {
			matches = append(matches, p.named(direction, from, port))
		}
	}
	return matches, errors.Join(err, portErr)
}

// named is the match of a named port, whose number is that of the destination: of the pods that the policy selects for
// ingress, of the peer for egress.
func (p *policy) named(direction model.Direction, with peer, port Port) model.Match {
	if direction == model.Ingress {
		target := selection{namespace: p.namespace, pods: p.pods, local: true, port: port.Name, protocol: port.Protocol}
		return model.Match{Peer: p.use(with), Named: p.add(&target)}
	}
	if with.pods != nil {
		target := *with.pods
		target.port, target.protocol = port.Name, port.Protocol
		return model.Match{Named: p.add(&target)} // its addresses are the peers'
	}
	all := selection{pods: labels.Everything(), port: port.Name, protocol: port.Protocol}
	return model.Match{Peer: p.use(with), Named: p.add(&all)}
}

// use returns the peer's set, which the policy refers to from now on.
func (p *policy) use(of peer) model.SetID {
	if of.pods != nil {
		return p.add(of.pods)
	}
	if of.blocks != (model.SetID{}) {
		p.blocks[of.blocks] = struct{}{}
	}
	return of.blocks
}

func (p *policy) add(s *selection) model.SetID {
	id := s.id()
	p.selections[id] = s
	return id
}

// peers reads the peers of a rule; none given is any. All blocks become one.
func (p *policy) peers(given []networkingv1.NetworkPolicyPeer) ([]peer, error) {
	if len(given) == 0 {
		return []peer{{}}, nil
	}
	var peers []peer
	var blocks []*networkingv1.IPBlock
	var errs []error
	for i, of := range given {
		if of.IPBlock != nil {
			blocks = append(blocks, of.IPBlock)
			continue
		}
		s, err := p.selection(of)
		if err != nil {
			errs = append(errs, fmt.Errorf("peer %d: %w", i, err))
			continue
		}
		peers = append(peers, peer{pods: s})
	}
	id, err := blocksID(blocks)
	if err != nil {
		errs = append(errs, err)
	}
	if id != (model.SetID{}) {
		peers = append(peers, peer{blocks: id})
	}
	return peers, errors.Join(errs...)
}

// selection reads a peer that selects pods. Without a namespaceSelector they are those of the policy's own namespace,
// without a podSelector all of a namespace.
func (p *policy) selection(of networkingv1.NetworkPolicyPeer) (*selection, error) {
	if of.PodSelector == nil && of.NamespaceSelector == nil {
		return nil, errors.New("selects nothing")
	}
	s := &selection{namespace: p.namespace, pods: labels.Everything()}
	var err error
	if of.PodSelector != nil {
		if s.pods, err = metav1.LabelSelectorAsSelector(of.PodSelector); err != nil {
			return nil, fmt.Errorf("podSelector: %w", err)
		}
	}
	if of.NamespaceSelector != nil {
		s.namespace = ""
		if s.namespaces, err = metav1.LabelSelectorAsSelector(of.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	return s, nil
}

// readPorts returns the ranges of port numbers by protocol, none for all ports, and the named ports.
func readPorts(ports []networkingv1.NetworkPolicyPort) (map[v1.Protocol][]model.PortRange, []Port, error) {
	numbers := map[v1.Protocol][]model.PortRange{}
	var named []Port
	var errs []error
	for i, port := range ports {
		protocol := v1.ProtocolTCP
		if port.Protocol != nil {
			protocol = protocolOrTCP(*port.Protocol)
		}
		if port.Port != nil && port.Port.Type == intstr.String {
			if of := (Port{Name: port.Port.StrVal, Protocol: protocol}); !slices.Contains(named, of) {
				named = append(named, of)
			}
			continue
		}
		first, last := int32(0), int32(65535)
		if port.Port != nil {
			first, last = port.Port.IntVal, port.Port.IntVal
			if port.EndPort != nil {
				last = *port.EndPort
			}
		}
		if first < 0 || last > 65535 || first > last {
			errs = append(errs, fmt.Errorf("ports[%d]: %d to %d is no range of ports", i, first, last))
			continue
		}
		numbers[protocol] = append(numbers[protocol], model.PortRange{First: uint16(first), Last: uint16(last)})
	}
	for protocol, ranges := range numbers {
		numbers[protocol] = mergedPorts(ranges)
	}
	return numbers, named, errors.Join(errs...)
}

// mergedPorts returns the same ports in sorted ranges that neither overlap nor touch, or none for all.
func mergedPorts(ranges []model.PortRange) []model.PortRange {
	slices.SortFunc(ranges, func(a, b model.PortRange) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	var out []model.PortRange
	for _, r := range ranges {
		if n := len(out); n > 0 && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	if len(out) == 1 && out[0] == (model.PortRange{First: 0, Last: 65535}) {
		return nil
	}
	return out
}
