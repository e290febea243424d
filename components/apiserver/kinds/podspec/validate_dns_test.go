package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestDNSConfig(t *testing.T) {
	type config = corev1.PodDNSConfig
	with := func(policy corev1.DNSPolicy, c *config) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.DNSPolicy, s.DNSConfig = policy, c }
	}
	search := func(n int, domain string) *config { return &config{Searches: slices.Repeat(texts{domain}, n)} }
	checkSpecs(t, "spec.", []specCase{
		{"none", with("Default", nil), nil},
		{"no policy", with("", nil), texts{"dnsPolicy: Required value"}},
		{"unknown policy", with("Host", nil), texts{`dnsPolicy: Unsupported value: "Host": supported values: ` +
			`"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`}},
		{"None without a configuration", with("None", nil),
			texts{"dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		{"None without a server", with("None", search(1, "a")),
			texts{"dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"}},
		{"None with a server", with("None", &config{Nameservers: texts{"10.0.0.1"}}), nil},
		{"three servers", with("ClusterFirst", &config{Nameservers: texts{"10.0.0.1", "fd00::1", "10.0.0.3"}}), nil},
		{
			"four servers",
			with("ClusterFirst", &config{Nameservers: texts{"10.0.0.1", "::1", "10.0.0.3", "10.0.0.4"}}),
			texts{
				`dnsConfig.nameservers: Invalid value: ["10.0.0.1","::1","10.0.0.3","10.0.0.4"]: must not have more than 3 nameservers`,
			},
		},
		{
			"name for a server",
			with("ClusterFirst", &config{Nameservers: texts{"10.0.0.1", "dns"}}),
			texts{
				`dnsConfig.nameservers[1]: Invalid value: "dns": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			},
		},
		{"searches", with("ClusterFirst", &config{Searches: texts{"a.b", "a.b.", "_tcp.x", "."}}), nil},
		{"bad search", with("ClusterFirst", &config{Searches: texts{"a", "A"}}),
			texts{`dnsConfig.searches[1]: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"as many as may be", with("ClusterFirst", search(32, "a")), nil},
		{"too many", with("ClusterFirst", search(33, "a")),
			texts{"dnsConfig.searches: Invalid value: [" + strings.Repeat(`"a",`,
				32) + `"a"]: must not have more than 32 search paths`}},
		{"as long as may be", with("ClusterFirst", search(32, strings.Repeat("a", 63))), nil}, // 32*63+31 characters
		{"too long", with("ClusterFirst", search(32, strings.Repeat("a", 63)+".")),
			texts{`dnsConfig.searches: Invalid value: ["aaa…`}},
		{"options", with("ClusterFirst", &config{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")},
			{Name: "debug"}}}), nil},
		{"option without a name", with("ClusterFirst", &config{Options: []corev1.PodDNSConfigOption{{Name: "a"}, {}}}),
			texts{"dnsConfig.options[1]: Required value: must not be empty"}},
	})
}
