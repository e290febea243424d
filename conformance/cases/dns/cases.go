// Package dns holds the cases that test cluster DNS: the names by which pods find Services, and its records one by
// one.
package dns

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

const (
	dnsDocs = "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/"
	dnsSpec = "https://github.com/kubernetes/dns/blob/master/docs/specification.md"
)

// Cases returns the cases of cluster DNS.
func Cases() []suite.Case {
	all := slices.Concat(nameCases(), recordCases())
	for i := range all {
		all[i].Component, all[i].Since = suite.DNS, "0.2"
		all[i].Needs = append(all[i].Needs, suite.HasScheduler, suite.HasControllers, suite.RunsPods, suite.PodNetwork,
			suite.ServiceNetwork, suite.ClusterDNS)
	}
	return all
}

// nameCases are about the names that pods use.
func nameCases() []suite.Case {
	return []suite.Case{
		{ID: "dns/service", Run: service, Reference: dnsDocs + "#services",
			Requirement: "The name of a Service MUST resolve to its cluster IP: short, with its namespace, and in full."},
		{ID: "dns/other-namespace", Run: otherNamespace, Reference: dnsDocs + "#namespaces-of-services",
			Requirement: "A name without a namespace MUST be that of a Service of the pod's own namespace."},
		{ID: "dns/headless", Run: headless, Reference: dnsDocs + "#services",
			Requirement: "The name of a headless Service MUST resolve to the addresses of its ready pods."},
		{ID: "dns/hostname", Run: hostname, Reference: dnsDocs + "#pod-s-hostname-and-subdomain-fields",
			Requirement: "A pod with hostname and subdomain MUST have a name below that of its headless Service."},
		{ID: "dns/follows-service", Run: followsService, Reference: dnsSpec,
			Requirement: "The name of a Service MUST follow it: to its cluster IP when it is recreated, and to " +
				"nothing when it is deleted."},
	}
}

// recordCases are about what the name server answers.
func recordCases() []suite.Case {
	return []suite.Case{
		{ID: "dns/no-data", Run: noData, Reference: dnsSpec + "#23---records-for-a-service-with-clusterip",
			Requirement: "A question for the family that a Service has not MUST be answered without record, " +
				"and not as an unknown name."},
		{ID: "dns/unknown", Run: unknown, Reference: dnsSpec,
			Requirement: "A question for a name of the cluster that is no Service's MUST be answered with NXDOMAIN."},
		{ID: "dns/srv", Run: srv, Reference: dnsDocs + "#srv-records",
			Requirement: "A named port of a Service MUST have an SRV record with its number and the Service's name."},
		{ID: "dns/srv-headless", Run: srvHeadless, Reference: dnsDocs + "#srv-records",
			Requirement: "A named port of a headless Service MUST have an SRV record per pod, whose target " +
				"resolves to the pod."},
		{ID: "dns/reverse", Run: reverse, Reference: dnsSpec + "#23---records-for-a-service-with-clusterip",
			Requirement: "The PTR record of a cluster IP MUST be the name of its Service."},
		{ID: "dns/reverse-pod", Run: reversePod, Reference: dnsSpec + "#24---records-for-a-headless-service",
			Requirement: "The PTR record of a named endpoint of a headless Service MUST be the endpoint's name."},
		{ID: "dns/external-name", Run: externalName, Reference: dnsSpec + "#25---records-for-external-name-services",
			Requirement: "The name of an ExternalName Service MUST be an alias of its external name."},
		{ID: "dns/schema-version", Run: schemaVersion, Reference: dnsSpec + "#22---record-for-schema-version",
			Requirement: "The cluster's domain MUST have a TXT record of the version of its schema."},
		{ID: "dns/tcp", Run: overTCP, Reference: dnsSpec,
			Requirement: "Cluster DNS MUST give the same answers over TCP as over UDP."},
		{ID: "dns/ready-only", Run: readyOnly, Reference: dnsDocs + "#pod-s-hostname-and-subdomain-fields",
			Requirement: "The name of a headless Service MUST NOT resolve to a pod that is not ready."},
		{ID: "dns/publish-not-ready", Run: publishNotReady, Reference: dnsDocs + "#pod-s-hostname-and-subdomain-fields",
			Requirement: "With publishNotReadyAddresses names of a headless Service MUST resolve to pods that are not ready."},
		{ID: "dns/endpoint-hostname", Run: endpointHostname, Reference: dnsSpec + "#24---records-for-a-headless-service",
			Requirement: "An endpoint with a hostname in the EndpointSlice of a headless Service MUST have a " +
				"name below that of the Service."},
	}
}

// startClient runs a client and more pods, and returns them with the zone of the namespace's Services.
func startClient(ctx context.Context, t *suite.T, pods ...*corev1.Pod) (map[string]*corev1.Pod, string) {
	started := traffic.Start(ctx, t, append(pods, traffic.Client(t, "client"))...)
	return started, t.Namespace + ".svc." + traffic.ClusterDomain(t, traffic.ReadResolver(ctx, t, "client"))
}

// answer is what a name server said: the response code, and the records as NAME TYPE DATA.
type answer struct {
	Code    string
	Records []string
}

// parseAnswer reads the output of the test image.
func parseAnswer(output string) answer {
	code, rest, _ := strings.Cut(output, "\n")
	a := answer{Code: code}
	for line := range strings.Lines(rest) {
		a.Records = append(a.Records, strings.TrimSpace(line))
	}
	return a
}

// records waits until a name has these records of a type, in any order. NOERROR without a record is the answer for a
// name that has records of other types alone.
func records(ctx context.Context, t *suite.T, name, kind, code string, want ...any) {
	ask(ctx, t, []string{name, kind}, code, ConsistOf(want...))
}

// ask waits for an answer and returns its records.
func ask(ctx context.Context, t *suite.T, question []string, code string, want gtypes.GomegaMatcher) []string {
	attempt := traffic.Try(t, "client", append([]string{"lookup"}, question...)...)
	got := suite.WaitFor(ctx, t, "the answer to "+strings.Join(question,
		" "), func(ctx context.Context) (answer, error) {
		result, err := attempt(ctx)
		return parseAnswer(result.Text), err
	}, And(HaveField("Code", code), HaveField("Records", want)))
	return got.Records
}

const (
	noError  = "NOERROR"
	nxDomain = "NXDOMAIN"
)

// addressKind is the type of the record that holds an address.
func addressKind(ip string) string {
	if traffic.IsIPv6(ip) {
		return "AAAA"
	}
	return "A"
}

// address is the record of a name's address.
func address(name, ip string) string { return name + ". " + addressKind(ip) + " " + ip }
