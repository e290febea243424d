package policy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no kubeconfig":   {func(c *Config) { c.Kubeconfig = "" }, "--kubeconfig is required"},
		"missing file":    {func(c *Config) { c.Kubeconfig = "/nowhere" }, "/nowhere"},
		"address":         {func(c *Config) { c.HealthzAddress = "localhost" }, "--healthz-bind-address"},
		"min sync period": {func(c *Config) { c.MinSyncPeriod = -1 }, "--min-sync-period"},
		"check period":    {func(c *Config) { c.CheckPeriod = 0 }, "--check-period"},
		"empty node name": {func(c *Config) { c.HostnameOverride = " " }, "--hostname-override"},
		"cleanup needs it": {func(c *Config) { c.Cleanup, c.CheckPeriod, c.Kubeconfig = true, 0, "" },
			"--check-period"},
	} {
		t.Run(name, func(t *testing.T) {
			config := NewConfig()
			config.Kubeconfig = "/nowhere"
			test.change(config)
			if _, err := New(*config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %s", err, test.want)
			}
		})
	}
}

// running is a component whose rules are in a fake kernel.
type running struct {
	client kubernetes.Interface
	rules  *knftables.Fake
	ended  *connections
	policy *Policy
	stop   func() error
}

// connections notes the addresses whose connections are deleted.
type connections struct {
	mu    sync.Mutex
	addrs []netip.Addr
}

func (c *connections) Delete(addrs map[netip.Addr]struct{}) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs = slices.AppendSeq(c.addrs, maps.Keys(addrs))
	return 0, nil
}

func (c *connections) deleted() []netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.addrs)
}

func start(t *testing.T, config Config) *running {
	t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: policytest.Node}, Spec: v1.NodeSpec{PodCIDR: "10.244.1.0/24"}}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	r := &running{client: fake.NewClientset(node, namespace), ended: &connections{}}
	r.rules = knftables.NewFake(knftables.InetFamily, "network-policy")
	config.HostnameOverride, config.Connections = strings.ToUpper(policytest.Node), r.ended
	if config.Client == nil {
		config.Client = r.client
	}
	if config.Open == nil {
		config.Open = func() (knftables.Interface, nftcheck.Kernel, error) {
			return r.rules, &nftchecktest.Kernel{Fake: r.rules}, nil
		}
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r.policy = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	return r
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 1000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: never", what)
}

func (r *running) has(t *testing.T, text string, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q is %v", text, want), func() bool {
		return strings.Contains(r.rules.Dump(), text) == want
	})
}

func TestRunFollowsTheAPI(t *testing.T) {
	config := NewConfig()
	config.HealthzAddress, config.CheckPeriod = "", 20*time.Millisecond
	r := start(t, *config)
	pods, policies := r.client.CoreV1().Pods("a"), r.client.NetworkingV1().NetworkPolicies("a")
	r.has(t, "forward-ingress", true)
	addr := netip.MustParseAddr("10.244.1.2")
	pod := policytest.Pod("a", "web", policytest.Node, map[string]string{"app": "web"}, 80, 53, addr)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "deny"}}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	isolated := "ingress-pods-v4 { 10.244.1.2 : goto ingress-group-"
	r.has(t, isolated, true)
	pod.Status.Phase = v1.PodSucceeded // the address may be another pod's
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, isolated, false)
	eventually(t, "connections of the pod are deleted", func() bool {
		return slices.Equal(r.ended.deleted(), []netip.Addr{addr})
	})
	pod.Status.Phase = v1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, isolated, true)
	if err := policies.Delete(t.Context(), "deny", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, isolated, false)
	r.has(t, "ingress-policy-", false)
	before := r.rules.Dump()
	tx := r.rules.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := r.rules.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what another program deleted is back", func() bool { return r.rules.Dump() == before })
	if err := r.stop(); err != context.Canceled {
		t.Errorf("Run returned %v", err)
	}
	if !strings.Contains(r.rules.Dump(), "forward-ingress") {
		t.Error("rules do not outlive the process")
	}
}

func TestServe(t *testing.T) {
	config := NewConfig()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config.HealthzAddress = free.Addr().String()
	_ = free.Close()
	r := start(t, *config)
	get := func(path string) (string, int) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+config.HealthzAddress+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error(), 0
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return string(body), response.StatusCode
	}
	eventually(t, "healthz is ok", func() bool {
		body, code := get("/healthz")
		return code == http.StatusOK && body == "ok"
	})
	body, _ := get("/metrics")
	for _, want := range []string{
		"network_policy_sync_duration_seconds_count 1", `network_policy_policies{direction="egress"} 0`,
		`network_policy_isolated_addresses{direction="ingress"} 0`, "network_policy_restores_total 0",
		"process_resident_memory_bytes",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	if err := r.stop(); err != context.Canceled {
		t.Errorf("Run returned %v", err)
	}
}

func TestCleanup(t *testing.T) {
	config := NewConfig()
	config.HealthzAddress = ""
	r := start(t, *config)
	r.has(t, "forward-ingress", true)
	_ = r.stop()
	config.Cleanup = true
	config.Open = func() (knftables.Interface, nftcheck.Kernel, error) {
		return r.rules, &nftchecktest.Kernel{Fake: r.rules}, nil
	}
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err != nil || r.rules.Dump() != "" {
		t.Errorf("%v, and left is %q", err, r.rules.Dump())
	}
}
