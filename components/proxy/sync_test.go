package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/compile"
	"quintet.dev/quintet/components/proxy/healthcheck"
	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

// brokenKernel is a fake that refuses transactions while fails is set.
type brokenKernel struct {
	*knftables.Fake
	fails atomic.Bool
	tried atomic.Int32
}

func (k *brokenKernel) Run(ctx context.Context, tx *knftables.Transaction) error {
	k.tried.Add(1)
	if k.fails.Load() {
		return errors.New("broken")
	}
	return k.Fake.Run(ctx, tx)
}

// newSyncer returns a syncer of one family over fakes, that is not run.
func newSyncer(t *testing.T, change ...func(*Config)) (*syncer, *brokenKernel, *clocktesting.FakeClock) {
	t.Helper()
	kernel := &brokenKernel{Fake: knftables.NewFake(knftables.IPv4Family, "kube-proxy")}
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	config := NewConfig()
	config.Client, config.Clock, config.HostnameOverride = fake.NewClientset(), clock, "me"
	config.Open = func(family v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) {
		if family == v1.IPv6Protocol {
			return nil, nil, errors.New("this machine has no IPv6")
		}
		return kernel, &nftchecktest.Kernel{Fake: kernel.Fake}, nil
	}
	for _, f := range change {
		f(config)
	}
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	s := &syncer{
		p: p, tracker: compile.New(compile.Node{Name: "me"}, ""), serviceCIDRs: serviceCIDRs{}, flows: noFlows{},
		node: node(), services: healthcheck.NewServices(nil, p.health.Healthy),
	}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, kernel, clock
}

// Only what changed counts, and only what the change of endpoints came from after the start.
func TestWhatCounts(t *testing.T) {
	s, _, clock := newSyncer(t)
	var told []event
	handler := handlers(func(before, slice *discoveryv1.EndpointSlice, deleted bool) {
		told = append(told, sliceEvent(before, slice, deleted))
	})
	version := func(version string, trigger time.Duration) *discoveryv1.EndpointSlice {
		of := slice("a", "10.244.1.2")
		of.ResourceVersion = version
		at := clock.Now().Add(trigger).Format(time.RFC3339Nano)
		of.Annotations = map[string]string{v1.EndpointsLastChangeTriggerTime: at}
		return of
	}
	old, one, two := version("1", -time.Hour), version("2", time.Second), version("3", time.Second)
	handler.OnAdd(old, true)
	handler.OnUpdate(old, old)                      // a resync
	handler.OnUpdate(old, version("1", -time.Hour)) // the same by another list
	handler.OnUpdate(old, one)
	handler.OnUpdate(one, two) // of the same trigger
	handler.OnDelete(two)
	for _, change := range told {
		if !change(s) {
			t.Error("a change changes nothing")
		}
	}
	if got := gathered(t, s.p.metrics)["kubeproxy_sync_proxy_rules_endpoint_changes_total"]; got != 4 {
		t.Errorf("counted %v changes", got)
	}
	if got := s.families[0].triggers; len(got) != 1 || !got[0].Equal(clock.Now().Add(time.Second)) {
		t.Errorf("triggers %v", got)
	}
	clock.Step(3 * time.Second)
	if err := s.writeFamily(t.Context(), s.families[0], s.tracker.Take()); err != nil {
		t.Fatal(err)
	}
	if got := gathered(t, s.p.metrics)["kubeproxy_network_programming_duration_seconds"]; got != 2 {
		t.Errorf("programming took %v s", got)
	}
}

// The health turns bad where rules can't be written for twice the sync period: from the start on, and when they are
// brought back. It turns good when they are written.
func TestFailingSyncIsUnhealthy(t *testing.T) {
	s, kernel, clock := newSyncer(t)
	kernel.fails.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.loop(ctx, nil) }()
	defer func() {
		cancel()
		<-ended
	}()
	until := func(step time.Duration, what string, holds func() bool) {
		t.Helper()
		eventually(t, func() bool {
			clock.Step(step)
			return holds()
		}, func() string { return what })
	}
	until(0, "no sync was tried", func() bool { return kernel.tried.Load() > 0 })
	if !s.p.health.Healthy() {
		t.Error("unhealthy at once")
	}
	clock.Step(60 * time.Second)
	if s.p.health.Healthy() {
		t.Error("healthy after a minute without rules")
	}
	kernel.fails.Store(false)
	until(time.Second, "unhealthy with rules", s.p.health.Healthy)
	kernel.fails.Store(true)
	tx := kernel.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := kernel.Fake.Run(ctx, tx); err != nil {
		t.Fatal(err)
	}
	before := kernel.tried.Load()
	until(time.Second, "the table was not rewritten", func() bool { return kernel.tried.Load() > before })
	clock.Step(60 * time.Second)
	if s.p.health.Healthy() {
		t.Error("healthy after a minute without the rules that were removed")
	}
}

func TestTableThatWaitsForItsSyncIsIntact(t *testing.T) {
	s, kernel, _ := newSyncer(t)
	kernel.fails.Store(true)
	if err := s.writeFamily(t.Context(), s.families[0], compile.Changes{}); err == nil {
		t.Fatal("the failure is not told")
	}
	if !s.intact(t.Context()) {
		t.Error("a table that was never written was changed")
	}
	kernel.fails.Store(false)
	if err := s.writeFamily(t.Context(), s.families[0], compile.Changes{}); err != nil || !s.intact(t.Context()) {
		t.Errorf("error %v, or not intact", err)
	}
	tx := kernel.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := kernel.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	if s.intact(t.Context()) {
		t.Error("a table that is gone is intact")
	}
}

func TestBackOff(t *testing.T) {
	var got []time.Duration
	for last := time.Duration(0); len(got) < 6; got = append(got, last) {
		last = backOff(last, 10*time.Second)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if got[i] != want*time.Second {
			t.Fatalf("waits %v", got)
		}
	}
}

// Without an address, the node is taken for reachable by all of the machine's, as for a family it has no address of.
func TestNodeAddresses(t *testing.T) {
	object := func(addresses ...string) *v1.Node {
		n := &v1.Node{}
		for _, address := range addresses {
			kind, ip, _ := strings.Cut(address, "=")
			n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeAddressType(kind), Address: ip})
		}
		return n
	}
	for name, test := range map[string]struct {
		bind  string
		node  *v1.Node
		want  string
		v4All bool
	}{
		"no node":        {"0.0.0.0", nil, "127.0.0.1", true},
		"no address":     {"::", object("Hostname=me"), "127.0.0.1", true},
		"internal first": {"0.0.0.0", object("ExternalIP=1.1.1.1", "InternalIP=10.0.0.1"), "10.0.0.1", false},
		"external":       {"0.0.0.0", object("ExternalIP=1.1.1.1"), "1.1.1.1", false},
		"both families":  {"0.0.0.0", object("InternalIP=fd00::1", "InternalIP=10.0.0.1"), "fd00::1 10.0.0.1", false},
		"one of two":     {"0.0.0.0", object("InternalIP=10.0.0.1", "InternalIP=10.0.0.2"), "10.0.0.1", false},
		"bound":          {"10.0.0.9", object("InternalIP=fd00::1", "InternalIP=10.0.0.1"), "10.0.0.9 fd00::1", false},
		"only IPv6":      {"0.0.0.0", object("InternalIP=fd00::1"), "fd00::1", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Proxy{config: Config{BindAddress: test.bind}}
			var got []string
			for _, ip := range p.nodeIPs(test.node) {
				got = append(got, ip.String())
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
			ips, all, err := p.nodePortIPs(v1.IPv4Protocol, test.node)
			if err != nil || all != test.v4All || (len(ips) == 0) != all {
				t.Errorf("node ports on %v, all %v, error %v", ips, all, err)
			}
		})
	}
}

func TestSysctlsAreOnlyRaised(t *testing.T) {
	file := filepath.Join(t.TempDir(), "value")
	for _, step := range []struct {
		value int
		want  string
	}{{5, "10\n"}, {10, "10\n"}, {20, "20"}, {19, "20"}} {
		if step.value == 5 {
			if err := os.WriteFile(file, []byte("10\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := raise(file, step.value); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != step.want {
			t.Errorf("after %d: %q, %v", step.value, got, err)
		}
	}
	if err := raise(filepath.Join(t.TempDir(), "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a value that is not there: %v", err)
	}
}

// An address in use is retried, unless the configuration makes it fatal.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	of := server{flag: "healthz-bind-address", address: address, handler: http.NotFoundHandler()}
	hard, _, _ := newSyncer(t, func(c *Config) { c.BindAddressHardFail = true })
	err = hard.p.serve(t.Context(), of)
	if err == nil || !strings.Contains(err.Error(), "--healthz-bind-address "+address) {
		t.Errorf("got %v", err)
	}
	soft, _, clock := newSyncer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- soft.p.serve(ctx, of) }()
	eventually(t, clock.HasWaiters, func() string { return "it does not wait" })
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Step(rebindPeriod)
	eventually(t, func() bool {
		answer, err := http.Get("http://" + address)
		return err == nil && answer.Body.Close() == nil
	}, func() string { return "it does not serve" })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestPages(t *testing.T) {
	for name, test := range map[string]struct {
		gates          map[string]bool
		statusz, flagz int
	}{
		"by default": {nil, 200, 200},
		"switched":   {map[string]bool{statuszGate: false, flagzGate: true}, 404, 200},
		"off":        {map[string]bool{statuszGate: false, flagzGate: false}, 404, 404},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newSyncer(t, func(c *Config) {
				c.FeatureGates = test.gates
				c.commandLine = func() map[string]string { return map[string]string{"v": "7"} }
			})
			handler := s.p.metricsHandler()
			get := func(path string) *httptest.ResponseRecorder {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				return answer
			}
			got := get("/statusz")
			if got.Code != test.statusz || got.Code == 200 && !strings.Contains(got.Body.String(), "/configz") {
				t.Errorf("statusz: %d %s", got.Code, got.Body)
			}
			got = get("/flagz")
			if got.Code != test.flagz || got.Code == 200 && !strings.Contains(got.Body.String(), "7") {
				t.Errorf("flagz: %d %s", got.Code, got.Body)
			}
			for path, want := range map[string]string{
				"/metrics": "kubernetes_build_info", "/metrics/slis": "", "/proxyMode": "nftables",
				"/configz": "masqueradeBit",
			} {
				if got := get(path); got.Code != 200 || !strings.Contains(got.Body.String(), want) {
					t.Errorf("%s: %d %s", path, got.Code, got.Body)
				}
			}
		})
	}
}

// slowListing is a kernel in which it takes a second to list a table.
type slowListing struct {
	nftcheck.Kernel
	clock  *clocktesting.FakeClock
	listed int
}

func (k *slowListing) Listing() (nftcheck.Listing, error) {
	k.listed++
	k.clock.Step(time.Second)
	return k.Kernel.Listing()
}

// Checks that take long are rare, and find changes all the same.
func TestChecksOfLargeTablesAreRare(t *testing.T) {
	listing := &slowListing{}
	s, kernel, clock := newSyncer(t, func(c *Config) {
		open := c.Open
		c.Open = func(family v1.IPFamily) (knftables.Interface, nftcheck.Kernel, error) {
			rules, kernel, err := open(family)
			if err == nil {
				listing.Kernel = kernel
			}
			return rules, listing, err
		}
	})
	listing.clock = clock
	if err := s.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if !s.intact(t.Context()) {
			t.Error("an intact table is rewritten")
		}
		clock.Step(checkPeriod)
	}
	if listing.listed != 1 {
		t.Errorf("listed %d times within a minute, want once", listing.listed)
	}
	tx := kernel.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := kernel.Fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	clock.Step(checkPause * time.Second)
	if s.intact(t.Context()) {
		t.Error("the table is gone and that is fine")
	}
}
