package nft

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/model"
)

// ends are the keywords of the pod's own address and of the other end's, by direction.
func ends(direction model.Direction) (own, other string) {
	if direction == model.Ingress {
		return "daddr", "saddr"
	}
	return "saddr", "daddr"
}

// policyRules accept what a policy allows. Packets that none accepts continue with the next policy of the group.
func policyRules(direction model.Direction, matches []model.Match) []string {
	var rules []string
	for _, match := range matches {
		rules = append(rules, matchRules(direction, match)...)
	}
	return rules
}

// matchRules returns a rule for each family, or one where no address is asked for.
func matchRules(direction model.Direction, match model.Match) []string {
	_, other := ends(direction)
	ports := portCondition(match)
	if match.Peer == (model.SetID{}) && match.Named == (model.SetID{}) {
		return []string{ports + "accept"}
	}
	var rules []string
	for _, f := range families() {
		rule := ""
		if match.Peer != (model.SetID{}) {
			rule += fmt.Sprintf("%s %s @%s ", f.keyword, other, setName(match.Peer, f))
		}
		if match.Named != (model.SetID{}) {
			rule += fmt.Sprintf("%s daddr . meta l4proto . th dport @%s ", f.keyword, setName(match.Named, f))
		}
		rules = append(rules, rule+ports+"accept")
	}
	return rules
}

func portCondition(match model.Match) string {
	protocol := strings.ToLower(string(match.Protocol))
	switch len(match.Ports) {
	case 0:
		if protocol == "" {
			return ""
		}
		return "meta l4proto " + protocol + " "
	case 1:
		return fmt.Sprintf("%s dport %s ", protocol, portText(match.Ports[0]))
	}
	texts := make([]string, len(match.Ports))
	for i, r := range match.Ports {
		texts[i] = portText(r)
	}
	return fmt.Sprintf("%s dport { %s } ", protocol, strings.Join(texts, ", "))
}

func portText(r model.PortRange) string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// groupRules ask the policies of a group, and drop what none of them allows.
func groupRules(group model.Group) []string {
	var rules []string
	for name := range strings.SplitSeq(group.Policies, ",") {
		key := model.PolicyKey{Direction: group.Direction, Namespace: group.Namespace, Name: name}
		rules = append(rules, "jump "+policyChain(key))
	}
	return append(rules, "drop")
}

// startingRules drop packets of unknown pods of this node, as long as one of them may be isolated: a pod is isolated
// from the start of its first container, at which the API does not tell its address yet. The pods that are known
// aren't held.
func startingRules(direction model.Direction, m *model.Model) []string {
	if !m.Starting[direction] {
		return nil
	}
	own, _ := ends(direction)
	var rules []string
	for _, f := range families() {
		var ranges []string
		for _, prefix := range m.PodCIDRs {
			if familyOf(prefix.Addr()) == f {
				ranges = append(ranges, prefix.String())
			}
		}
		if len(ranges) > 0 {
			rules = append(rules, fmt.Sprintf("%s %s { %s } %s %s != @%s drop",
				f.keyword, own, strings.Join(ranges, ", "), f.keyword, own, localSet(f)))
		}
	}
	return rules
}

// neighborDiscovery accepts messages by which hosts of one link find each other. Where bridge-nf-call-ip6tables is set,
// the hook also sees frames that stay on the pods' bridge; these alone still have the hop limit of 255, as routing
// decrements it.
const neighborDiscovery = "ip6 hoplimit 255 icmpv6 type { nd-router-solicit, nd-router-advert, " +
	"nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } accept"

// baseRules accept or drop a packet. Those of established connections pass, so that replies do, also those of
// connections that are older than a policy. Pods reach themselves, e.g. through a Service of theirs. Packets of the
// node itself don't pass the hook, so that probes reach every pod.
func baseRules(direction model.Direction) []string {
	own, _ := ends(direction)
	rules := []string{"ct state established,related accept", neighborDiscovery}
	for _, f := range families() {
		rules = append(rules, fmt.Sprintf("%s saddr . %s daddr @%s accept", f.keyword, f.keyword, selfSet(f)))
	}
	for _, f := range families() {
		rules = append(rules, fmt.Sprintf("%s %s vmap @%s", f.keyword, own, podsMap(direction, f)))
	}
	return append(rules, "jump "+startingChain(direction))
}

// setObject is a set of one family, without its elements.
func setObject(id model.SetID, f family) *knftables.Set {
	set := &knftables.Set{
		Name: setName(id, f), Type: f.addressType,
		Comment: knftables.PtrTo(id.Key[:min(len(id.Key), knftables.CommentLengthMax-8)]),
	}
	switch id.Kind {
	case model.KindRanges:
		set.Flags = []knftables.SetFlag{knftables.IntervalFlag}
	case model.KindPorts:
		set.Type += " . inet_proto . inet_service"
	}
	return set
}

func setElement(id model.SetID, e model.Element) *knftables.Element {
	out := &knftables.Element{Set: setName(id, familyOf(e.Addr)), Key: []string{e.Addr.String()}}
	switch id.Kind {
	case model.KindRanges:
		if e.To != e.Addr {
			out.Key = []string{e.Addr.String() + "-" + e.To.String()}
		}
	case model.KindPorts:
		out.Key = append(out.Key, strings.ToLower(string(e.Protocol)), strconv.Itoa(int(e.Port)))
	}
	return out
}

func podElement(at model.PodAddress, group model.Group) *knftables.Element {
	return &knftables.Element{
		Map: podsMap(at.Direction, familyOf(at.Addr)),
		Key: []string{at.Addr.String()}, Value: []string{"goto " + groupChain(group)},
	}
}

func localElements(addr netip.Addr) []*knftables.Element {
	f, text := familyOf(addr), addr.String()
	return []*knftables.Element{
		{Set: localSet(f), Key: []string{text}},
		{Set: selfSet(f), Key: []string{text, text}},
	}
}
