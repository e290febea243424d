package nodeipam

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"quintet.dev/quintet/components/controllers/runner"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestAllocate(t *testing.T) {
	for _, tc := range []struct {
		cidr string
		mask int
		want []string
	}{
		{"10.244.0.0/16", 24, []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"}},
		{"10.244.0.0/30", 31, []string{"10.244.0.0/31", "10.244.0.2/31", ""}},
		{"10.0.0.0/24", 24, []string{"10.0.0.0/24", ""}},
		{"fd00:10:244::/56", 64, []string{"fd00:10:244::/64", "fd00:10:244:1::/64"}},
	} {
		a, err := newAllocator(prefix(tc.cidr), tc.mask, newMetrics(runner.Env{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			got, ok := a.allocate()
			if ok != (want != "") || (ok && got.String() != want) {
				t.Errorf("%s: got %v %v, want %q", tc.cidr, got, ok, want)
			}
		}
	}
	if _, err := newAllocator(prefix("10.0.0.0/24"), 16, newMetrics(runner.Env{})); err == nil {
		t.Error("a node mask wider than the cluster's was taken")
	}
}

func TestOccupy(t *testing.T) {
	a, err := newAllocator(prefix("10.244.0.0/22"), 24, newMetrics(runner.Env{}))
	if err != nil {
		t.Fatal(err)
	}
	a.occupy(prefix("10.244.0.0/23"))   // two of them
	a.occupy(prefix("10.244.2.128/25")) // a part of one
	a.occupy(prefix("192.168.0.0/16"))  // none of ours
	if got, ok := a.allocate(); !ok || got != prefix("10.244.3.0/24") {
		t.Fatalf("got %v %v", got, ok)
	}
	if _, ok := a.allocate(); ok {
		t.Fatal("more than there is")
	}
	a.release(prefix("10.244.2.128/25"))
	if got, ok := a.allocate(); !ok || got != prefix("10.244.2.0/24") {
		t.Fatalf("got %v %v", got, ok)
	}
	a.occupy(prefix("10.0.0.0/8"))
	if _, ok := a.allocate(); ok {
		t.Fatal("a range around ours was not taken as all of it")
	}
}

// TestNeverTwice: in any order of giving out and taking back, no two live ranges overlap, and all can be used.
func TestNeverTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a, err := newAllocator(prefix("10.0.0.0/20"), 24, newMetrics(runner.Env{}))
	if err != nil {
		t.Fatal(err)
	}
	live := map[netip.Prefix]bool{}
	for range 5000 {
		if random.IntN(2) == 0 {
			got, ok := a.allocate()
			if ok == (len(live) == 16) {
				t.Fatalf("%d live, allocated: %v", len(live), ok)
			}
			if live[got] {
				t.Fatalf("%v given out twice", got)
			}
			if ok {
				live[got] = true
			}
			continue
		}
		for p := range live {
			a.release(p)
			delete(live, p)
			break
		}
	}
}

// TestMetrics: what is taken twice counts once, and so does what is given back.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	a, err := newAllocator(prefix("10.0.0.0/22"), 24, newMetrics(runner.Env{Registry: registry}))
	if err != nil {
		t.Fatal(err)
	}
	a.occupy(prefix("10.0.0.0/23"))
	a.occupy(prefix("10.0.0.0/24"))
	if _, ok := a.allocate(); !ok {
		t.Fatal("full")
	}
	a.release(prefix("10.0.0.0/24"))
	a.release(prefix("10.0.0.0/24"))
	m := a.measures
	if taken, back, usage := testutil.ToFloat64(m.allocations), testutil.ToFloat64(m.releases),
		testutil.ToFloat64(m.usage); taken != 3 || back != 1 || usage != 0.5 {
		t.Errorf("%v taken, %v given back, %v in use", taken, back, usage)
	}
}
