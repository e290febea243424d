package policy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/policy/policytest"
	"quintet.dev/quintet/internal/nftcheck"
	"quintet.dev/quintet/internal/nftcheck/nftchecktest"
)

// brokenKernel is a kernel that refuses everything while it is broken.
type brokenKernel struct {
	*knftables.Fake
	nftchecktest.Kernel
	broken atomic.Bool
	calls  atomic.Int32
}

func newBrokenKernel() *brokenKernel {
	rules := knftables.NewFake(knftables.InetFamily, "network-policy")
	return &brokenKernel{Fake: rules, Kernel: nftchecktest.Kernel{Fake: rules}}
}

func (b *brokenKernel) open() (knftables.Interface, nftcheck.Kernel, error) { return b, b, nil }

func (b *brokenKernel) Run(ctx context.Context, tx *knftables.Transaction) error {
	if b.calls.Add(1); b.broken.Load() {
		return errors.New("broken")
	}
	return b.Fake.Run(ctx, tx)
}

// Listing is that of nftcheck.Kernel.
func (b *brokenKernel) Listing() (nftcheck.Listing, error) {
	if b.calls.Add(1); b.broken.Load() {
		return nftcheck.Listing{}, errors.New("broken")
	}
	return b.Kernel.Listing()
}

// Syncs and checks that fail are retried. The component is unhealthy after a minute of them, and healthy again when
// they succeed.
func TestFailuresAreRetried(t *testing.T) {
	for name, later := range map[string]bool{"at the start": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			kernel, clock := newBrokenKernel(), clocktesting.NewFakeClock(time.Now())
			config := NewConfig()
			config.HealthzAddress, config.Open, config.Clock = "", kernel.open, clock
			kernel.broken.Store(!later)
			r := start(t, *config)
			healthy := func() bool {
				clock.Step(time.Second)
				return r.policy.health.probe(nil) == nil
			}
			if later {
				eventually(t, "healthy", healthy)
				kernel.broken.Store(true)
			}
			eventually(t, "unhealthy", func() bool { return !healthy() })
			calls := kernel.calls.Load()
			eventually(t, "retried", func() bool {
				clock.Step(time.Second)
				return kernel.calls.Load() > calls+2
			})
			kernel.broken.Store(false)
			eventually(t, "healthy again", healthy)
			if !strings.Contains(kernel.Dump(), "forward-ingress") {
				t.Errorf("no rules in %q", kernel.Dump())
			}
			if err := r.stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

// Rules of a former run stay in force as long as the API server does not tell all objects.
func TestRulesStayWithoutAPIServer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	client, kernel := fake.NewClientset(), newBrokenKernel()
	tx := kernel.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Chain{Name: "former"})
	if err := kernel.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	refuse := func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return errors.New("away")
	}
	client.PrependReactor("list", "networkpolicies", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, refuse()
	})
	client.PrependWatchReactor("networkpolicies", func(k8stesting.Action) (bool, watch.Interface, error) {
		return true, nil, refuse()
	})
	config := NewConfig()
	config.HealthzAddress, config.Open, config.Client = "", kernel.open, client
	r := start(t, *config)
	for range 2 {
		<-asked
	}
	if err := r.policy.health.probe(nil); err == nil {
		t.Error("healthy without rules of its own")
	}
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	if calls, dump := kernel.calls.Load(), kernel.Dump(); calls != 1 || !strings.Contains(dump, "former") {
		t.Errorf("%d calls, %q", calls, dump)
	}
}

func TestRunWithoutNFT(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	config := NewConfig()
	config.Client, config.HealthzAddress = fake.NewClientset(), ""
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "program nft") {
		t.Errorf("Run returned %v, want an error that names nft", err)
	}
}

// The ranges in which starting pods are held follow the Node object.
func TestPodCIDRs(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	config := NewConfig()
	config.HealthzAddress = ""
	r := start(t, *config)
	deny := policytest.NewRandom(1).Policy()
	deny.Namespace, deny.Spec.PodSelector, deny.Spec.PolicyTypes = "a", metav1.LabelSelector{}, nil
	policies := r.client.NetworkingV1().NetworkPolicies("a")
	if _, err := policies.Create(t.Context(), deny, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	starting := policytest.Pod("a", "starting", policytest.Node, nil, 80, 53)
	if _, err := r.client.CoreV1().Pods("a").Create(t.Context(), starting, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, "ip daddr { 10.244.1.0/24 } ip daddr != @local-pods-v4 drop", true)
	node, err := r.client.CoreV1().Nodes().Get(t.Context(), policytest.Node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.PodCIDRs = []string{"10.244.7.0/24", "fd00:7::/64"}
	if _, err := r.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, "ip daddr { 10.244.7.0/24 } ip daddr != @local-pods-v4 drop", true)
	r.has(t, "ip6 daddr { fd00:7::/64 } ip6 daddr != @local-pods-v6 drop", true)
	starting.Status.PodIPs = append(starting.Status.PodIPs, v1.PodIP{IP: "10.244.7.2"})
	if _, err := r.client.CoreV1().Pods("a").UpdateStatus(t.Context(), starting, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.has(t, "@local-pods-v4 drop", false)
	_ = r.stop()
}
