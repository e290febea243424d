package cloudprovider

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/cloudprovider/forward"
)

var noClient = fake.NewClientset()

// fakeKernel tells the states that it is given.
type fakeKernel struct {
	states chan forward.State
	broken error
	closed bool
}

func (k *fakeKernel) Apply(_ context.Context, state forward.State) error {
	if k.states != nil {
		k.states <- state
	}
	return nil
}

func (k *fakeKernel) Serve(ctx context.Context) error {
	if k.broken != nil {
		return k.broken
	}
	<-ctx.Done()
	return ctx.Err()
}

func (k *fakeKernel) Close() error { k.closed = true; return nil }

func TestServiceIsServedUntilItGoes(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	address := netip.MustParseAddr("10.213.77.220")
	client := fake.NewClientset(loadBalanced("a", address.String()), readyNode("n", "10.213.77.11", "1.2.3.4"))
	used := &fakeKernel{states: make(chan forward.State, 1000)}
	config := NewConfig()
	config.AddressPools, config.Network, config.Kernel, config.Client = []string{pool4}, testNetwork, used, client
	config.HealthzAddress = freeAddress(t)
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	wait := func(is func(forward.State) bool) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for {
			select {
			case state := <-used.states:
				if is(state) {
					return
				}
			case <-timeout:
				t.Fatal("the kernel is not as wanted")
			}
		}
	}
	wait(func(s forward.State) bool {
		node := netip.MustParseAddr("10.213.77.11")
		return len(s.Routes) == 1 && s.Routes[0].Address == address && slices.Contains(s.Routes[0].Via, node) &&
			slices.Equal(s.Nodes, []netip.Addr{node})
	})
	if code, body := get(t, config.HealthzAddress, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	_, body := get(t, config.HealthzAddress, "/metrics")
	if want := `cloud_provider_load_balancer_addresses{family="IPv4"} 1`; !strings.Contains(body, want) {
		t.Errorf("/metrics lacks %s:\n%s", want, body)
	}
	if err := client.CoreV1().Services("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(func(s forward.State) bool { return len(s.Routes) == 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !used.closed {
		t.Errorf("Run returned %v, kernel closed: %v", err, used.closed)
	}
}

// A kernel that answers no more ends the program, which may be restarted.
func TestBrokenKernelIsAnError(t *testing.T) {
	broken := errors.New("the interface is gone")
	config := NewConfig()
	config.AddressPools, config.Network, config.Client = []string{pool4}, testNetwork, fake.NewClientset()
	config.Kernel, config.HealthzAddress = &fakeKernel{broken: broken}, ""
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run returned %v", err)
	}
}

func TestAddressInUseIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	used := &fakeKernel{}
	config := NewConfig()
	config.AddressPools, config.Network, config.Client = []string{pool4}, testNetwork, fake.NewClientset()
	config.Kernel, config.HealthzAddress = used, listener.Addr().String()
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--healthz-bind-address") || !used.closed {
		t.Errorf("Run returned %v, kernel closed: %v", err, used.closed)
	}
}

func TestSyncHealth(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	h := &syncHealth{clock: clock}
	broken := errors.New("broken")
	for _, step := range []struct {
		result  error
		after   time.Duration
		healthy bool
	}{
		{broken, 0, false},                 // nothing was synced yet
		{nil, 2 * unhealthyAfter, true},    // nothing changed since
		{broken, unhealthyAfter / 2, true}, // for a short time
		{broken, unhealthyAfter, false},    // since the failure before
		{nil, 0, true},
	} {
		h.note(step.result)
		clock.Step(step.after)
		if err := h.probe(nil); (err == nil) != step.healthy {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// freeAddress is one that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestBalancer(t *testing.T) {
	svc := loadBalanced("a", "")
	svc.Spec.HealthCheckNodePort = 31000
	if b := balancer(svc, nil); b.HealthPort != 0 || b.Sticky {
		t.Errorf("policy Cluster: %+v", b)
	}
	svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	svc.Spec.SessionAffinity = v1.ServiceAffinityClientIP
	if b := balancer(svc, nil); b.HealthPort != 31000 || !b.Sticky {
		t.Errorf("policy Local with affinity: %+v", b)
	}
}
