package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNames: the fields that name other objects or the pod's host.
func TestNames(t *testing.T) {
	type spec = *corev1.PodSpec
	const subdomain, label = "a lowercase RFC 1123 subdomain must…", "a lowercase RFC 1123 label must…"
	checkSpecs(t, "spec.", []specCase{
		{"good", func(s spec) {
			s.ServiceAccountName, s.NodeName, s.Hostname, s.Subdomain = "a.b", "a.b", "a-b", "c"
			s.PriorityClassName, s.RuntimeClassName, s.NodeSelector = "a.b", new("a.b"), map[string]string{"a/b": "C"}
			s.PreemptionPolicy = new(corev1.PreemptNever)
		}, nil},
		{"bad names of objects", func(s spec) {
			s.ServiceAccountName, s.NodeName, s.PriorityClassName, s.RuntimeClassName = "A", "B", "C", new("")
		}, texts{`serviceAccountName: Invalid value: "A": ` + subdomain, `nodeName: Invalid value: "B": ` + subdomain,
			`priorityClassName: Invalid value: "C": ` + subdomain,
			`runtimeClassName: Invalid value: "": ` + subdomain}},
		{"bad host", func(s spec) { s.Hostname, s.Subdomain = "a_b", "C" },
			texts{`hostname: Invalid value: "a_b": ` + label, `subdomain: Invalid value: "C": ` + label}},
		{"long host", func(s spec) { s.Hostname = strings.Repeat("a", 64) },
			texts{`hostname: Invalid value: "` + strings.Repeat("a", 64) + `": must be no more than 63 characters`}},
		{"no restart policy", func(s spec) { s.RestartPolicy = "" }, texts{"restartPolicy: Required value"}},
		{"labels of nodes", func(s spec) { s.NodeSelector = map[string]string{"a b": "c"} },
			texts{`nodeSelector: Invalid value: "a b": name part must consist of…`}},
		{"value of such a label", func(s spec) { s.NodeSelector = map[string]string{"a": "c d"} },
			texts{`nodeSelector: Invalid value: "c d": a valid label must be…`}},
		{"preemption", func(s spec) { s.PreemptionPolicy = new(corev1.PreemptionPolicy("Always")) },
			texts{`preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"`}},
		{"no preemption", func(s spec) { s.PreemptionPolicy = new(corev1.PreemptionPolicy("")) },
			texts{"preemptionPolicy: Required value"}},
	})
}

func TestActiveDeadline(t *testing.T) {
	const msg = "must be between 1 and 2147483647, inclusive"
	of := func(seconds int64) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = &seconds }
	}
	checkSpecs(t, "spec.activeDeadlineSeconds: ", []specCase{
		{"least", of(1), nil},
		{"most", of(2147483647), nil},
		{"none", of(0), texts{"Invalid value: 0: " + msg}},
		{"too many", of(2147483648), texts{"Invalid value: 2147483648: " + msg}},
	})
}

// TestHostnameOverride (KEP-4762).
func TestHostnameOverride(t *testing.T) {
	with := func(name string, change func(s *corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.HostnameOverride = &name
			change(s)
		}
	}
	nothing := func(*corev1.PodSpec) {}
	checkSpecs(t, "spec.hostnameOverride: ", []specCase{
		{"good", with("a.b", nothing), nil},
		{"as long as may be", with(strings.Repeat("a.", 31)+"ab", nothing), nil},
		{"too long", with(strings.Repeat("a.", 32)+"a", nothing), texts{"Too long: may not be more than 64 bytes"}},
		{"none", with("", nothing), texts{`Invalid value: "": a lowercase RFC 1123 subdomain must…`}},
		{"bad", with("A", nothing), texts{`Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"with a full name", with("a", func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = new(true) }),
			texts{"Forbidden: may not be specified when setHostnameAsFQDN is true"}},
		{"without a full name", with("a", func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = new(false) }), nil},
		{"on the host's network", with("a", func(s *corev1.PodSpec) { s.HostNetwork = true }),
			texts{"Forbidden: may not be specified when hostNetwork is true"}},
	})
}

func TestReadinessGatesAndAliases(t *testing.T) {
	checkSpecs(t, "spec.", []specCase{
		{"gates", func(s *corev1.PodSpec) {
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/A"}, {ConditionType: "B"}}
		}, nil},
		{"bad gate", func(s *corev1.PodSpec) {
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b c"}}
		}, texts{`readinessGates[1].conditionType: Invalid value: "b c": name part must consist of…`}},
		{"aliases", func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: texts{"a", "a.b"}}, {IP: "fd00::1"}}
		}, nil},
		{"bad address", func(s *corev1.PodSpec) { s.HostAliases = []corev1.HostAlias{{IP: "10.0.0"}} },
			texts{`hostAliases[0].ip: Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		{"address with zeros", func(s *corev1.PodSpec) { s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.01"}} },
			texts{`hostAliases[0].ip: Invalid value: "10.0.0.01": must not have leading 0s`}},
		{"bad name", func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: texts{"a", "a_b"}}}
		}, texts{`hostAliases[0].hostnames[1]: Invalid value: "a_b": a lowercase RFC 1123 subdomain must…`}},
	})
}
