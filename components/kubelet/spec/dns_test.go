package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

const (
	clusterFile = "search ns.svc.cluster.local svc.cluster.local cluster.local example.com\n" +
		"nameserver 10.0.0.10\noptions ndots:5\n"
	nodeFile = "search example.com\nnameserver 9.9.9.9\noptions timeout:2 rotate\n"
	fallback = `kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. ` +
		`Falling back to "Default" policy.`
)

// withDNS returns a builder on a node with a resolv.conf, and the events that it records.
func withDNS(t *testing.T) (*Builder, chan string) {
	t.Helper()
	b, recorder := builder(t), record.NewFakeRecorder(10)
	b.ResolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	text := "# search not.this\nsearch first.example.com\nsearch example.com.\nnameserver 9.9.9.9\n" +
		"options timeout:1\noptions timeout:2 rotate\n"
	if err := os.WriteFile(b.ResolvConf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Recorder, b.NodeRef = recorder, &v1.ObjectReference{Kind: "Node", Name: "n1"}
	return b, recorder.Events
}

func TestDNSPolicies(t *testing.T) {
	for name, test := range map[string]struct {
		policy v1.DNSPolicy
		host   bool
		change func(*Builder)
		config *v1.PodDNSConfig
		want   string
		events []string
	}{
		"ClusterFirst":                     {policy: v1.DNSClusterFirst, want: clusterFile},
		"none given":                       {policy: "", want: clusterFile},
		"ClusterFirstWithHostNet":          {policy: v1.DNSClusterFirstWithHostNet, host: true, want: clusterFile},
		"ClusterFirst on the host network": {policy: v1.DNSClusterFirst, host: true, want: nodeFile},
		"Default":                          {policy: v1.DNSDefault, want: nodeFile},
		"None": {policy: v1.DNSNone, want: "search a.b\nnameserver 1.1.1.1\noptions edns0\n", config: &v1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1"}, Searches: []string{"a.b"},
			Options: []v1.PodDNSConfigOption{{Name: "edns0", Value: new("")}},
		}},
		"merged": {
			policy: v1.DNSClusterFirst,
			config: &v1.PodDNSConfig{
				Nameservers: []string{"10.0.0.10", "1.1.1.1"}, Searches: []string{"cluster.local", "x.y"},
				Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("1")}, {Name: "rotate"}},
			},
			want: "search ns.svc.cluster.local svc.cluster.local cluster.local example.com x.y\n" +
				"nameserver 10.0.0.10\nnameserver 1.1.1.1\noptions ndots:1 rotate\n",
		},
		"without a cluster domain": {
			policy: v1.DNSClusterFirst, change: func(b *Builder) { b.ClusterDomain = "" },
			want: "search example.com\nnameserver 10.0.0.10\noptions ndots:5\n",
		},
		"without cluster DNS": {
			policy: v1.DNSClusterFirst, change: func(b *Builder) { b.ClusterDNS = nil }, want: nodeFile,
			events: []string{
				"Warning MissingClusterDNS " + fallback, `Warning MissingClusterDNS pod: "pod_ns(uid)". ` + fallback,
			},
		},
		"without resolvConf": {
			policy: v1.DNSDefault,
			change: func(b *Builder) { b.ResolvConf, b.NodeIPs = "", []string{"fd00::1", "10.0.0.1"} },
			want:   "search .\nnameserver ::1\nnameserver 127.0.0.1\n",
		},
		"without resolvConf, with cluster DNS": {
			policy: v1.DNSClusterFirst, change: func(b *Builder) { b.ResolvConf = "" },
			want: "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.0.0.10\noptions ndots:5\n",
		},
		"too many name servers": {
			policy: v1.DNSDefault, config: &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"}},
			want: "search example.com\nnameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver 2.2.2.2\noptions timeout:2 rotate\n",
			events: []string{"Warning DNSConfigForming Nameserver limits were exceeded, some nameservers have been omitted, " +
				"the applied nameserver line is: 9.9.9.9 1.1.1.1 2.2.2.2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, events := withDNS(t)
			if test.change != nil {
				test.change(b)
			}
			p := pod(v1.Container{})
			p.Spec.DNSPolicy, p.Spec.HostNetwork, p.Spec.DNSConfig = test.policy, test.host, test.config
			if _, err := b.Sandbox(p, 0); err != nil {
				t.Fatal(err)
			}
			r, _, err := b.resolver(p)
			if got := r.String(); err != nil || got != test.want {
				t.Errorf("got\n%s%v\nwant\n%s", got, err, test.want)
			}
			close(events)
			var got []string
			for event := range events {
				got = append(got, event)
			}
			if !slices.Equal(got, test.events) {
				t.Errorf("events\n%q\nwant\n%q", got, test.events)
			}
		})
	}
}

func TestSearchLimits(t *testing.T) {
	paths := func(n, size int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("%0*d", size, i)
		}
		return list
	}
	for name, test := range map[string]struct {
		searches []string
		want     []string
	}{
		"as many as may be": {paths(32, 10), paths(32, 10)},
		"one too many":      {paths(33, 10), paths(33, 10)[:32]},
		"too long together": {paths(20, 200), paths(20, 200)[:10]}, // ten paths and nine spaces: 2009
		"one too long":      {append([]string{strings.Repeat("x", 254)}, "a"), []string{"a"}},
	} {
		r := resolver{searches: test.searches}
		warnings := r.fitLimits()
		if !slices.Equal(r.searches, test.want) {
			t.Errorf("%s: %q", name, r.searches)
		}
		exceeded := len(test.want) < len(test.searches)
		told := "is: " + strings.Join(test.want, " ")
		if exceeded != (len(warnings) == 1) || exceeded && !strings.HasSuffix(warnings[0].message, told) {
			t.Errorf("%s: %v", name, warnings)
		}
	}
}

func TestUnreadableResolvConfIsNamed(t *testing.T) {
	b, _ := withDNS(t)
	if err := os.WriteFile(b.ResolvConf, []byte("nameserver\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sandbox(pod(v1.Container{}), 0); err == nil || !strings.Contains(err.Error(), b.ResolvConf) {
		t.Errorf("without a server: %v", err)
	}
	b.ResolvConf += ".missing"
	if _, err := b.Sandbox(pod(v1.Container{}), 0); err == nil || !strings.Contains(err.Error(), b.ResolvConf) {
		t.Errorf("missing: %v", err)
	}
}

func TestHostsOfBothFamilies(t *testing.T) {
	b := builder(t)
	p := pod(v1.Container{})
	p.Status.PodIPs = []v1.PodIP{{IP: "fd00::5"}, {IP: "10.1.0.5"}}
	path := filepath.Join(t.TempDir(), "hosts")
	check := func(want string) {
		t.Helper()
		if err := b.writeHosts(path, p); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(data), want) {
			t.Errorf("got\n%s%v\nwant at the end\n%s", data, err, want)
		}
	}
	check("fe00::2\tip6-allrouters\nfd00::5\tpod\n10.1.0.5\tpod\n")
	p.Spec.Subdomain, p.Spec.Hostname = "sub", "h"
	check("fd00::5\th.sub.ns.svc.cluster.local\th\n10.1.0.5\th.sub.ns.svc.cluster.local\th\n")
	p.Spec.HostnameOverride = new("other.example.com")
	check("fd00::5\tother.example.com\n10.1.0.5\tother.example.com\n")
	p.Spec.HostNetwork = true
	own, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	check("# Kubernetes-managed hosts file (host network).\n" + string(own))
}

func TestSandboxHasOnlyHostPorts(t *testing.T) {
	p := pod(v1.Container{Ports: []v1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8081}}})
	s, err := builder(t).Sandbox(p, 0)
	if err != nil || len(s.Ports) != 1 || s.Ports[0].HostPort != 8081 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestResolvConfIsChecked(t *testing.T) {
	long := strings.Repeat("a", 200) + " "
	for name, test := range map[string]struct{ line, want string }{
		"fits": {"search " + strings.Repeat("a ", 29), ""},
		"many": {"search " + strings.Repeat("a ", 30), "consisting of more than 29 domains!"},
		"long path": {"search " + strings.Repeat("a", 254),
			"a search path which length is more than allowed 253 chars!"},
		"long": {"search " + strings.Repeat(long, 11),
			"search line which length is more than allowed 2048 chars!"},
		"no resolver": {"nameserver", "names no server"},
	} {
		t.Run(name, func(t *testing.T) {
			b, events := withDNS(t)
			if err := os.WriteFile(b.ResolvConf, []byte(test.line), 0o600); err != nil {
				t.Fatal(err)
			}
			b.CheckResolvConf()
			close(events)
			got := <-events
			if (got == "") != (test.want == "") || !strings.HasSuffix(got, test.want) {
				t.Errorf("event %q, want %q", got, test.want)
			}
		})
	}
}
