package nft

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/proxy/model"
)

// rendered is a port of a Service as objects of the table.
type rendered struct {
	affinity []affinitySet
	chains   []chain // those that are jumped to stand before those that jump
	elements []element
	// shared are elements of sets that several ports may use.
	shared []element
}

// chain has rules of its own port only.
type chain struct {
	name  string
	rules []string
}

// affinitySet holds the clients of one endpoint until they stay away for so many seconds.
type affinitySet struct {
	name    string
	seconds int
}

// element of a map, or of a set where value is empty.
type element struct {
	container  string
	key, value string // parts of the key are separated by " . "
}

// render translates a port into objects. It is pure.
func (t *Table) render(p model.ServicePort) rendered {
	name := portName(p.Key)
	r := renderer{t: t, p: p, proto: strings.ToLower(string(p.Key.Protocol)), name: name}
	if len(p.ClusterEndpoints) > 0 {
		r.balance("service-"+name, p.ClusterEndpoints, !p.InternalLocal)
	}
	if len(p.LocalEndpoints) > 0 && (p.InternalLocal || p.ExternalLocal) {
		r.balance("local-"+name, p.LocalEndpoints, p.InternalLocal)
	}
	r.internal()
	if p.NodePort != 0 || len(p.ExternalIPs) > 0 || len(p.LoadBalancerIPs) > 0 {
		r.external()
	}
	r.out.shared = append(r.out.shared, element{container: clusterIPsSet, key: p.ClusterIP.String()})
	for _, e := range r.hairpinEndpoints() {
		key := fmt.Sprintf("%s . %s . %s . %d", e.IP, e.IP, r.proto, e.Port)
		r.out.shared = append(r.out.shared, element{container: hairpinSet, key: key})
	}
	return r.out
}

// renderer collects the objects of one port.
type renderer struct {
	t           *Table
	p           model.ServicePort
	name, proto string
	out         rendered
}

// hairpinEndpoints are those that may reach themselves through the Service.
func (r *renderer) hairpinEndpoints() []model.Endpoint {
	var endpoints []model.Endpoint
	seen := map[netip.AddrPort]bool{}
	for _, of := range [][]model.Endpoint{r.p.ClusterEndpoints, r.p.LocalEndpoints} {
		for _, endpoint := range of {
			if endpoint.Local && !seen[endpoint.Addr()] {
				seen[endpoint.Addr()] = true
				endpoints = append(endpoints, endpoint)
			}
		}
	}
	return endpoints
}

// balance adds a chain that sends a connection to one of the endpoints. takesInternal is true where traffic to the
// cluster IP comes by.
func (r *renderer) balance(name string, endpoints []model.Endpoint, takesInternal bool) {
	var rules []string
	if takesInternal {
		if from := r.t.fromOutside(); from != "" {
			rules = append(rules, fmt.Sprintf("%s daddr %s %s dport %d %sjump %s",
				r.t.ip, r.p.ClusterIP, r.proto, r.p.Port, from, markChain))
		}
	}
	if r.p.AffinitySeconds > 0 {
		r.out.chains = append(r.out.chains, chain{name, append(rules, r.sticky(name, endpoints)...)})
		return
	}
	var choices []string
	for i, endpoint := range endpoints {
		choices = append(choices, fmt.Sprintf("%d : %s . %d", i, endpoint.IP, endpoint.Port))
	}
	rules = append(rules, fmt.Sprintf("meta l4proto %s dnat %s to numgen random mod %d map { %s }",
		r.proto, r.t.ip, len(endpoints), strings.Join(choices, ", ")))
	r.out.chains = append(r.out.chains, chain{name, rules})
}

// sticky makes a chain and a set of clients per endpoint, and the rules that find a client's endpoint.
func (r *renderer) sticky(name string, endpoints []model.Endpoint) []string {
	var known, choices []string
	for i, endpoint := range endpoints {
		where := endpoint.Addr().String()
		id := hashed(name+"/"+where+"/"+strconv.Itoa(r.p.AffinitySeconds)) + "-" +
			r.name[:min(len(r.name), longestName-30)]
		set, to := affinityPrefix+id, "endpoint-"+id
		r.out.affinity = append(r.out.affinity, affinitySet{set, r.p.AffinitySeconds})
		r.out.chains = append(r.out.chains, chain{to, []string{
			fmt.Sprintf("update @%s { %s saddr } meta l4proto %s dnat to %s", set, r.t.ip, r.proto, where),
		}})
		known = append(known, fmt.Sprintf("%s saddr @%s goto %s", r.t.ip, set, to))
		choices = append(choices, fmt.Sprintf("%d : goto %s", i, to))
	}
	return append(known, fmt.Sprintf("numgen random mod %d vmap { %s }", len(endpoints), strings.Join(choices, " , ")))
}

// internal leads traffic to the cluster IP.
func (r *renderer) internal() {
	to, endpoints := "service-"+r.name, r.p.ClusterEndpoints
	if r.p.InternalLocal {
		to, endpoints = "local-"+r.name, r.p.LocalEndpoints
	}
	key := fmt.Sprintf("%s . %s . %d", r.p.ClusterIP, r.proto, r.p.Port)
	if len(endpoints) > 0 {
		r.out.elements = append(r.out.elements, element{serviceIPs, key, "goto " + to})
		return
	}
	r.out.elements = append(r.out.elements, element{noEndpointServices, key, r.refusal()})
}

// refusal is what meets traffic for which this node has no endpoint: where other nodes have one, it is dropped, as the
// client may be led to them.
func (r *renderer) refusal() string {
	if r.p.HasAnyEndpoint {
		return "drop"
	}
	return "goto " + rejectChain
}

// external leads traffic to node ports, external IPs and load-balancer addresses.
func (r *renderer) external() {
	endpoints := r.p.ClusterEndpoints
	if r.p.ExternalLocal {
		endpoints = r.p.LocalEndpoints
	}
	reaches := len(r.p.ClusterEndpoints) > 0 || len(endpoints) > 0
	chainName := "external-" + r.name
	if reaches {
		r.out.chains = append(r.out.chains, chain{chainName, r.externalRules()})
	}
	add := func(to, without, key string) {
		if reaches {
			r.out.elements = append(r.out.elements, element{to, key, "goto " + chainName})
		}
		if len(endpoints) == 0 { // what the external chain translated does not meet this
			r.out.elements = append(r.out.elements, element{without, key, r.refusal()})
		}
	}
	for _, ips := range [][]netip.Addr{r.p.ExternalIPs, r.p.LoadBalancerIPs} {
		for _, ip := range ips {
			add(serviceIPs, noEndpointServices, fmt.Sprintf("%s . %s . %d", ip, r.proto, r.p.Port))
		}
	}
	if r.p.NodePort != 0 {
		add(serviceNodePorts, noEndpointNodePorts, fmt.Sprintf("%s . %d", r.proto, r.p.NodePort))
	}
	r.firewall()
}

// externalRules send traffic on. Where the policy is Local, traffic of this node and its pods may go to any endpoint
// all the same, and the client's address is kept.
func (r *renderer) externalRules() []string {
	cluster := "goto service-" + r.name
	if !r.p.ExternalLocal {
		return []string{"jump " + markChain, cluster}
	}
	var rules []string
	if len(r.p.ClusterEndpoints) > 0 {
		if pods := r.t.config.LocalTraffic; pods != "" {
			rules = append(rules, pods+" "+cluster)
		}
		rules = append(rules, "fib saddr type local jump "+markChain, "fib saddr type local "+cluster)
	}
	if len(r.p.LocalEndpoints) > 0 {
		rules = append(rules, "goto local-"+r.name)
	}
	return rules
}

// firewall limits the clients of the load-balancer addresses.
func (r *renderer) firewall() {
	if !r.p.SourceRangesSet || len(r.p.LoadBalancerIPs) == 0 {
		return
	}
	rule := "drop"
	if len(r.p.SourceRanges) > 0 {
		var ranges []string
		for _, prefix := range r.p.SourceRanges {
			ranges = append(ranges, prefix.String())
		}
		rule = fmt.Sprintf("%s saddr != { %s } drop", r.t.ip, strings.Join(ranges, ", "))
	}
	name := "firewall-" + r.name
	r.out.chains = append(r.out.chains, chain{name, []string{rule}})
	for _, ip := range r.p.LoadBalancerIPs {
		key := fmt.Sprintf("%s . %s . %d", ip, r.proto, r.p.Port)
		r.out.elements = append(r.out.elements, element{firewallIPs, key, "goto " + name})
	}
}

// fromOutside is the condition of traffic to a cluster IP that gets the node's address, so that replies come back
// through this node; "" where there is no such traffic.
func (t *Table) fromOutside() string {
	switch {
	case t.config.MasqueradeAll:
		return " "
	case t.config.LocalTraffic != "":
		return t.config.NotLocalTraffic + " "
	default:
		return ""
	}
}

func keyword(family v1.IPFamily) string {
	if family == v1.IPv6Protocol {
		return "ip6"
	}
	return "ip"
}
