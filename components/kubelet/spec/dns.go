package spec

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Limits of a pod's resolv.conf.
const (
	maxNameservers    = 3
	maxSearchPaths    = 32
	maxSearchListSize = 2048
)

// resolver is the content of a resolv.conf.
type resolver struct{ servers, searches, options []string }

func (r *resolver) String() string {
	var text strings.Builder
	if len(r.searches) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(r.searches, " "))
	}
	for _, server := range r.servers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	if len(r.options) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(r.options, " "))
	}
	return text.String()
}

// warning is a Warning event. Those of the node tell of what is missing on it for all pods.
type warning struct {
	reason, message string
	ofNode          bool
}

// warn records events about the pod and the node.
func (b *Builder) warn(pod *v1.Pod, warnings []warning) {
	if b.Recorder == nil {
		return
	}
	for _, w := range warnings {
		if w.ofNode {
			b.Recorder.Event(b.NodeRef, v1.EventTypeWarning, w.reason, w.message)
		} else {
			b.Recorder.Event(pod, v1.EventTypeWarning, w.reason, w.message)
		}
	}
}

// resolver is the pod's resolv.conf as its DNS policy asks, and the events that tell what is not as it was asked for
// (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy).
func (b *Builder) resolver(pod *v1.Pod) (resolver, []warning, error) {
	host, err := b.hostResolver()
	if err != nil {
		return resolver{}, nil, err
	}
	var r resolver
	var warnings []warning
	switch policy := policyOf(pod); {
	case policy == v1.DNSNone:
	case policy == v1.DNSDefault:
		r = b.nodeResolver(host)
	case len(b.ClusterDNS) == 0:
		r, warnings = b.nodeResolver(host), missingClusterDNS(pod)
	default:
		r = resolver{slices.Clone(b.ClusterDNS), host.searches, []string{"ndots:5"}}
		if domain := b.ClusterDomain; domain != "" {
			own := []string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}
			r.searches = unique(append(own, host.searches...))
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		r.servers = unique(append(r.servers, c.Nameservers...))
		r.searches = unique(append(r.searches, c.Searches...))
		r.options = mergeOptions(r.options, c.Options)
	}
	return r, append(warnings, r.fitLimits()...), nil
}

// policyOf is the pod's DNS policy as it takes effect: ClusterFirst, which a pod without one has, too, Default or None.
func policyOf(pod *v1.Pod) v1.DNSPolicy {
	switch policy := pod.Spec.DNSPolicy; {
	case policy == v1.DNSNone, policy == v1.DNSDefault:
		return policy
	case policy == v1.DNSClusterFirst && pod.Spec.HostNetwork:
		return v1.DNSDefault
	}
	return v1.DNSClusterFirst
}

func missingClusterDNS(pod *v1.Pod) []warning {
	message := fmt.Sprintf("kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. "+
		"Falling back to %q policy.", v1.DNSClusterFirst, v1.DNSDefault)
	name := fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
	return []warning{
		{reason: "MissingClusterDNS", message: message, ofNode: true},
		{reason: "MissingClusterDNS", message: fmt.Sprintf("pod: %q. %s", name, message)},
	}
}

// nodeResolver is the node's configuration; a kubelet without one makes pods ask the local machine.
func (b *Builder) nodeResolver(host resolver) resolver {
	if b.ResolvConf != "" {
		return host
	}
	r := resolver{searches: []string{"."}}
	for _, ip := range b.NodeIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
			r.servers = append(r.servers, "::1")
		} else {
			r.servers = append(r.servers, "127.0.0.1")
		}
	}
	if len(r.servers) == 0 {
		r.servers = []string{"127.0.0.1"}
	}
	return r
}

// fitLimits leaves out what resolvers do not read, or do not survive.
func (r *resolver) fitLimits() []warning {
	var warnings []warning
	if len(r.servers) > maxNameservers {
		r.servers = r.servers[:maxNameservers]
		warnings = append(warnings, warning{reason: "DNSConfigForming", message: "Nameserver limits were exceeded, " +
			"some nameservers have been omitted, the applied nameserver line is: " + strings.Join(r.servers, " ")})
	}
	kept := slices.Clone(r.searches[:min(len(r.searches), maxSearchPaths)])
	kept = slices.DeleteFunc(kept,
		func(path string) bool { return len(path) > utilvalidation.DNS1123SubdomainMaxLength })
	for len(strings.Join(kept, " ")) > maxSearchListSize {
		kept = kept[:len(kept)-1]
	}
	if len(kept) < len(r.searches) {
		warnings = append(warnings, warning{reason: "DNSConfigForming", message: "Search Line limits were exceeded, " +
			"some search paths have been omitted, the applied search line is: " + strings.Join(kept, " ")})
	}
	r.searches = kept
	return warnings
}

// CheckResolvConf tells, in an event about the node, that its resolv.conf leaves no room for the cluster's domains.
func (b *Builder) CheckResolvConf() {
	if b.ResolvConf == "" || b.Recorder == nil {
		return
	}
	if message := b.resolvConfProblem(); message != "" {
		b.Recorder.Event(b.NodeRef, v1.EventTypeWarning, "CheckLimitsForResolvConf", message)
	}
}

func (b *Builder) resolvConfProblem() string {
	host, err := b.hostResolver()
	if err != nil {
		return err.Error()
	}
	paths := maxSearchPaths
	if b.ClusterDomain != "" {
		paths -= 3
	}
	if len(host.searches) > paths {
		return fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!",
			b.ResolvConf, paths)
	}
	for _, path := range host.searches {
		if len(path) > utilvalidation.DNS1123SubdomainMaxLength {
			return fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!",
				b.ResolvConf, utilvalidation.DNS1123SubdomainMaxLength)
		}
	}
	if len(strings.Join(host.searches, " ")) > maxSearchListSize {
		return fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!",
			b.ResolvConf, maxSearchListSize)
	}
	return ""
}

func (b *Builder) hostResolver() (resolver, error) {
	if b.ResolvConf == "" {
		return resolver{}, nil
	}
	data, err := os.ReadFile(b.ResolvConf)
	if err != nil {
		return resolver{}, fmt.Errorf("resolvConf: %w", err)
	}
	r, err := parseResolvConf(string(data))
	if err != nil {
		return r, fmt.Errorf("resolvConf %s: %w", b.ResolvConf, err)
	}
	return r, nil
}

// parseResolvConf reads the lines that pods take over. Name servers add up, as do options, of which the last of a name
// counts; the last search line counts.
func parseResolvConf(text string) (resolver, error) {
	var r resolver
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) < 2 {
				return r, fmt.Errorf("a nameserver line names no server")
			}
			r.servers = append(r.servers, fields[1])
		case "search":
			r.searches = nil
			for _, path := range fields[1:] {
				if path != "." { // with and without the dot a path is the same
					path = strings.TrimSuffix(path, ".")
				}
				r.searches = append(r.searches, path)
			}
		case "options":
			for _, option := range fields[1:] {
				r.options = addOption(r.options, option)
			}
		}
	}
	return r, nil
}

func unique(words []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		again := seen[word]
		seen[word] = true
		return again
	})
}

// mergeOptions adds options; one of the same name replaces.
func mergeOptions(have []string, more []v1.PodDNSConfigOption) []string {
	for _, option := range more {
		text := option.Name
		if option.Value != nil && *option.Value != "" {
			text += ":" + *option.Value
		}
		have = addOption(have, text)
	}
	return have
}

// addOption adds "name" or "name:value" and removes what had the name.
func addOption(have []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	kept := slices.DeleteFunc(slices.Clone(have), func(old string) bool {
		oldName, _, _ := strings.Cut(old, ":")
		return oldName == name
	})
	return append(kept, option)
}
