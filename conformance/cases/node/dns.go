package node

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

const dnsDocs = "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/"

// dnsCases are about what the kubelet writes into a pod about names: its resolv.conf, its hosts file, its hostname.
// What the name server answers is not theirs.
func dnsCases() []suite.Case {
	clusterDNS := []suite.Feature{suite.HasControllers, suite.ClusterDNS}
	all := []suite.Case{
		{ID: "node/dns-cluster-first", Run: clusterFirst, Reference: dnsDocs + "#namespaces-of-services", Needs: clusterDNS,
			Requirement: "A pod MUST search its namespace, all Services and the cluster's domain for names of " +
				"less than five dots."},
		{ID: "node/dns-config", Run: dnsConfig, Reference: dnsDocs + "#pod-dns-config", Needs: clusterDNS,
			Requirement: "The dnsConfig of a pod MUST be added to what its policy gives: servers, searches and options."},
		{ID: "node/dns-none", Run: dnsNone, Reference: dnsDocs + "#pod-s-dns-policy",
			Requirement: "With dnsPolicy None a pod MUST have the servers, searches and options of its dnsConfig alone."},
		{ID: "node/dns-default", Run: dnsDefault, Reference: dnsDocs + "#pod-s-dns-policy", Needs: clusterDNS,
			Requirement: "With dnsPolicy Default a pod MUST NOT search the cluster's domains."},
		{ID: "node/dns-host-network", Run: dnsHostNetwork, Reference: dnsDocs + "#pod-s-dns-policy", Needs: clusterDNS,
			Requirement: "On the network of its node a pod MUST use cluster DNS with ClusterFirstWithHostNet, " +
				"and not with ClusterFirst."},
		{ID: "node/hosts-file", Run: hostsFile,
			Reference: "https://kubernetes.io/docs/tasks/network/customize-hosts-file-for-pods/", Needs: clusterDNS,
			Requirement: "A pod MUST find its own full name, with hostname and subdomain, and its host " +
				"aliases in its hosts file."},
		{ID: "node/hostname-as-fqdn", Run: hostnameAsFQDN, Reference: dnsDocs + "#pod-sethostnameasfqdn-field",
			Needs:       clusterDNS,
			Requirement: "With setHostnameAsFQDN the hostname in a pod MUST be its full name, and else the short one."},
	}
	for i := range all {
		all[i].Since = "0.2"
	}
	return all
}

func clusterFirst(ctx context.Context, t *suite.T) {
	traffic.Start(ctx, t, traffic.Client(t, "client"))
	r := traffic.ReadResolver(ctx, t, "client")
	domain := traffic.ClusterDomain(t, r)
	t.Expect(len(r.Searches)).To(BeNumerically(">=", 3), "searches %v", r.Searches)
	want := []string{t.Namespace + ".svc." + domain, "svc." + domain, domain}
	t.Expect(r.Searches[:3]).To(Equal(want), "the search path")
	t.Expect(r.Options).To(ContainElement("ndots:5"), "the options")
	t.Expect(r.Servers).NotTo(BeEmpty(), "the name servers")
}

func dnsConfig(ctx context.Context, t *suite.T) {
	configured := traffic.Client(t, "configured")
	configured.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{documented},
		Searches:    []string{"more.example"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}, {Name: "edns0"}},
	}
	traffic.Start(ctx, t, configured, traffic.Client(t, "client"))
	plain, got := traffic.ReadResolver(ctx, t, "client"), traffic.ReadResolver(ctx, t, "configured")
	t.Expect(got.Servers).To(Equal(append(plain.Servers, documented)), "the name servers")
	t.Expect(got.Searches).To(Equal(append(plain.Searches, "more.example")), "the search path")
	t.Expect(got.Options).To(ContainElements("ndots:2", "edns0"), "the options")
	t.Expect(got.Options).NotTo(ContainElement("ndots:5"), "the options")
}

// documented is an address that no machine has: it is reserved for documentation.
const documented = "203.0.113.53"

func dnsNone(ctx context.Context, t *suite.T) {
	own := traffic.Client(t, "own")
	own.Spec.DNSPolicy = corev1.DNSNone
	own.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{documented},
		Searches:    []string{"own.example"},
		Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("3")}},
	}
	traffic.Start(ctx, t, own)
	t.Expect(traffic.ReadResolver(ctx, t, "own")).To(Equal(traffic.Resolver{
		Servers: []string{documented}, Searches: []string{"own.example"}, Options: []string{"ndots:3"},
	}), "the resolv.conf of a pod with dnsPolicy None")
}

func dnsDefault(ctx context.Context, t *suite.T) {
	inherits := traffic.Client(t, "inherits")
	inherits.Spec.DNSPolicy = corev1.DNSDefault
	traffic.Start(ctx, t, inherits, traffic.Client(t, "client"))
	domain := traffic.ClusterDomain(t, traffic.ReadResolver(ctx, t, "client"))
	t.Expect(traffic.ReadResolver(ctx, t, "inherits").Searches).NotTo(searchesCluster(t, domain), "the search path")
}

// dnsHostNetwork compares the two policies by whether the cluster's domains are searched.
func dnsHostNetwork(ctx context.Context, t *suite.T) {
	first, withHost := traffic.OnHost(traffic.Client(t, "first")), traffic.OnHost(traffic.Client(t, "with-host"))
	first.Spec.DNSPolicy, withHost.Spec.DNSPolicy = corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet
	plain := traffic.Client(t, "plain")
	traffic.Start(ctx, t, first, withHost, plain)
	want := traffic.ReadResolver(ctx, t, "plain")
	got := traffic.ReadResolver(ctx, t, "with-host")
	t.Expect(got.Servers).To(Equal(want.Servers), "the name servers with ClusterFirstWithHostNet")
	t.Expect(got.Searches).To(Equal(want.Searches), "the search path with ClusterFirstWithHostNet")
	domain := traffic.ClusterDomain(t, want)
	t.Expect(traffic.ReadResolver(ctx, t, "first").Searches).
		NotTo(searchesCluster(t, domain), "the search path with ClusterFirst")
}

func hostsFile(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	server := traffic.Named(traffic.Server(t, "server", "web"), "first", "web")
	aliases := []string{"alias.example", "other.example"}
	server.Spec.HostAliases = []corev1.HostAlias{{IP: documented, Hostnames: aliases}}
	pods := traffic.Start(ctx, t, server)
	zone := podZone(ctx, t, "server")
	content, _, err := t.Exec(ctx, "server", "", "testimage", "cat", "/etc/hosts")
	t.Must(err, "read the hosts file")
	names := map[string][]string{}
	for line := range strings.Lines(content) {
		if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(line, "#") {
			names[fields[0]] = append(names[fields[0]], fields[1:]...)
		}
	}
	own := names[pods["server"].Status.PodIP]
	t.Expect(own).To(ContainElements("first.web."+zone, "first"), "names of the pod:\n"+content)
	t.Expect(names[documented]).To(ContainElements(aliases), "host aliases:\n"+content)
}

// podZone is the domain of the Services of a pod's namespace.
func podZone(ctx context.Context, t *suite.T, pod string) string {
	return t.Namespace + ".svc." + traffic.ClusterDomain(t, traffic.ReadResolver(ctx, t, pod))
}

func hostnameAsFQDN(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "s", traffic.Headless)
	full, short := traffic.Named(traffic.Client(t, "full"), "f", "s"),
		traffic.Named(traffic.Client(t, "short"), "g", "s")
	full.Spec.SetHostnameAsFQDN = ptr.To(true)
	traffic.Start(ctx, t, full, short)
	zone := podZone(ctx, t, "short")
	// The kernel keeps 64 characters of a hostname: names here are short, for the zone is long.
	for pod, host := range map[string]string{"full": "f.s." + zone, "short": "g"} {
		traffic.Answers(ctx, t, "the hostname in "+pod, traffic.Try(t, pod, "whoami"),
			ContainSubstring(" host="+host+" "))
	}
}

// searchesCluster matches a search path with a domain of the cluster in it.
func searchesCluster(t *suite.T, domain string) gtypes.GomegaMatcher {
	return ContainElement(BeElementOf(t.Namespace+".svc."+domain, "svc."+domain))
}
