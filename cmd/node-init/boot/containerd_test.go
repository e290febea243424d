package boot

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEngineIsTheKubelets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	must(t, os.WriteFile(file, []byte("containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"), 0o600))
	for _, test := range []struct {
		args []string
		cri  bool
	}{
		{nil, false}, {[]string{"--runtime=docker"}, false}, {[]string{"--runtime=cri"}, true},
		{[]string{"--container-runtime-endpoint", "unix:///run/containerd/containerd.sock"}, true},
		{[]string{"--config=" + file}, true},
	} {
		if got, err := usesCRI(test.args); err != nil || got != test.cri {
			t.Errorf("%v: %v, %v", test.args, got, err)
		}
	}
	if _, err := usesCRI([]string{"--container-runtime-endpoint=unix:///run/other.sock"}); err == nil ||
		!strings.Contains(err.Error(), "/run/other.sock") {
		t.Errorf("an engine that node-init can't start: %v", err)
	}
	if _, err := usesCRI([]string{"--config=/absent"}); err == nil {
		t.Error("a configuration that is not there: no error")
	}
}

func TestContainerdConfig(t *testing.T) {
	config := string(containerdConfig(containerdSettings{Data: "/data", Socket: "/socket", Pause: `p"q`,
		Template: "/template", Authorities: "/certs", Unprotected: true}))
	for _, line := range []string{`root = "/data"`, `address = "/socket"`, `sandbox_image = "p\"q"`,
		`conf_template = "/template"`, `config_path = "/certs"`, `restrict_oom_score_adj = true`} {
		if !strings.Contains(config, line+"\n") {
			t.Errorf("no line %s in\n%s", line, config)
		}
	}
	if strings.Contains(config, "%!") {
		t.Error(config)
	}
}

func TestCapable(t *testing.T) {
	for status, want := range map[string]bool{
		"CapPrm:\t0\nCapEff:\t0000000001000000\nCapBnd:\t0": true, "CapEff:\t0000000000ffffff\n": false, "": true,
	} {
		if got := capable(status, 24); got != want {
			t.Errorf("%q: %v", status, got)
		}
	}
}

func TestCommandsAreRunToTheirEnd(t *testing.T) {
	r := theReaper()
	must(t, r.run(t.Context(), "true"))
	if err := r.run(t.Context(), "sh", "-c", "echo why; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "code 3") || !strings.Contains(err.Error(), "why") {
		t.Errorf("a command that fails: %v", err)
	}
	if err := r.run(t.Context(), "/no/such/program"); err == nil {
		t.Error("a program that does not exist: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.run(ctx, "sleep", "1000"); err == nil {
		t.Error("a command outlives its context")
	}
}

func TestPodsAreLedToTheResolver(t *testing.T) {
	address := netip.MustParseAddr(resolverIPv4)
	for _, test := range []struct{ content, want, upstream string }{
		{"nameserver 127.0.0.11\nsearch a b\noptions ndots:0\n",
			"nameserver 169.254.53.53\nsearch a b\noptions ndots:0\n", "127.0.0.11"},
		{"nameserver 127.0.0.11\nnameserver 10.0.0.1\n", "nameserver 169.254.53.53\n", "127.0.0.11"},
		{"nameserver 10.0.0.1\nnameserver 127.0.0.11\n", "", ""},
		{"search a\n", "search a\n", ""},
	} {
		if got, upstream := leadTo(test.content, address); got != test.want || upstream != test.upstream {
			t.Errorf("%q: %q, %q", test.content, got, upstream)
		}
	}
	for ips, want := range map[string]string{"": resolverIPv4, "10.0.0.1": resolverIPv4, "fd00::1": resolverIPv6,
		"fd00::1,10.0.0.1": resolverIPv4} {
		if got := resolverAddress(ips).String(); got != want {
			t.Errorf("of a node at %q: %s", ips, got)
		}
	}
}

func TestIPv6IsEnabled(t *testing.T) {
	conf := t.TempDir()
	if err := enableIPv6(conf); err == nil {
		t.Error("settings that are not there: no error")
	}
	for _, name := range []string{"default", "lo"} {
		must(t, os.Mkdir(filepath.Join(conf, name), 0o755))
	}
	must(t, enableIPv6(conf))
	for _, name := range []string{"default", "lo"} {
		if got, err := os.ReadFile(filepath.Join(conf, name, "disable_ipv6")); err != nil || string(got) != "0" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
