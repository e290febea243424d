package leader

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// electing has a short retry period, and loses the lease after lost without a renewal.
func electing(lost time.Duration) Config {
	c := Default("thing")
	c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = lost*3/2, lost, 20*time.Millisecond
	return c
}

func TestOneLeadsThenTheNext(t *testing.T) {
	client := fake.NewClientset()
	first, stopFirst := context.WithCancel(t.Context())
	leads := make(chan string, 2)
	var working bool
	run := func(ctx context.Context, name string) <-chan error {
		result := make(chan error, 1)
		go func() {
			result <- Run(ctx, electing(time.Minute), client, name, func(ctx context.Context) error {
				if working {
					t.Error("two leaders at once")
				}
				working = true
				leads <- name
				<-ctx.Done()
				working = false
				return nil
			})
		}()
		return result
	}
	a := run(first, "a")
	if got := <-leads; got != "a" {
		t.Fatalf("leader %q", got)
	}
	second, stopSecond := context.WithCancel(t.Context())
	b := run(second, "b")
	stopFirst()
	if err := <-a; err != nil {
		t.Fatal(err)
	}
	if got := <-leads; got != "b" {
		t.Fatalf("leader %q", got)
	}
	stopSecond()
	if err := <-b; err != nil {
		t.Fatal(err)
	}
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "thing", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := *lease.Spec.HolderIdentity; holder != "" {
		t.Errorf("lease still held by %q", holder)
	}
}

func TestLost(t *testing.T) {
	client := fake.NewClientset()
	var off atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if off.Load() {
			return true, nil, errors.New("cut off")
		}
		return false, nil, nil
	})
	err := Run(t.Context(), electing(200*time.Millisecond), client, "", func(ctx context.Context) error {
		off.Store(true)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, ErrLost) {
		t.Fatalf("got %v, want ErrLost", err)
	}
}

func TestWithoutElection(t *testing.T) {
	want := errors.New("done")
	if err := Run(t.Context(), Config{}, nil, "", func(context.Context) error { return want }); !errors.Is(err, want) {
		t.Fatalf("got %v", err)
	}
}

func TestFlagsAndValidation(t *testing.T) {
	cases := map[string]string{
		"--leader-elect-resource-lock=endpoints": `"endpoints"`,
		"--leader-elect-lease-duration=1s":       "lease duration",
		"--leader-elect-retry-period=9s":         "retry period",
		"--leader-elect-resource-name=":          "name",
		"--leader-elect=true":                    "",
	}
	for flag, want := range cases {
		var c Config
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(fs, "kube-scheduler")
		if err := fs.Parse([]string{flag}); err != nil {
			t.Fatal(err)
		}
		err := c.Validate()
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", flag, err, want)
		}
	}
}
