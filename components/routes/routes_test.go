package routes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func node(name, cidr, ip string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.NodeSpec{PodCIDR: cidr},
		Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: name},
			{Type: v1.NodeInternalIP, Address: ip}}},
	}
}

func TestWanted(t *testing.T) {
	six := node("six", "", "10.0.0.6")
	six.Spec.PodCIDRs = []string{"10.244.6.0/24", "fd00:6::/64"}
	six.Status.Addresses = append(six.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: "fd01::6"})
	for name, test := range map[string]struct {
		nodes []*v1.Node
		want  []Route
	}{
		"not to itself": {[]*v1.Node{node("me", "10.244.0.0/24", "10.0.0.1")}, nil},
		"to another": {[]*v1.Node{node("a", "10.244.1.0/24", "10.0.0.2")},
			[]Route{{"10.244.1.0/24", "10.0.0.2"}}},
		"not without a range": {[]*v1.Node{node("a", "", "10.0.0.2")}, nil},
		"not without address": {[]*v1.Node{node("a", "10.244.1.0/24", "")}, nil},
		"each family by its own": {[]*v1.Node{six}, []Route{
			{"10.244.6.0/24", "10.0.0.6"}, {"fd00:6::/64", "fd01::6"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Wanted(test.nodes, "me"); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// table is a routing table in memory that tells when it changed.
type table struct {
	mu      sync.Mutex
	routes  []Route
	changed chan []Route
	broken  string // destination that can't be set
	still   error  // why packets can't be forwarded
}

func (t *table) Forward() error { return t.still }

func (t *table) Bridge(string) (string, error) { return "02:42:00:00:00:01", nil }

func (t *table) Watch(context.Context, string, chan<- struct{}) error { return nil }

// noFilter keeps the last translation.
type noFilter struct{ last Translation }

func (f *noFilter) Apply(_ context.Context, t Translation) error { f.last = t; return nil }

func (t *table) List() ([]Route, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.routes), nil
}

func (t *table) Set(route Route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if route.Destination == t.broken {
		return errors.New("no")
	}
	t.routes = append(slices.DeleteFunc(t.routes, func(r Route) bool { return r.Destination == route.Destination }),
		route)
	t.tell()
	return nil
}

func (t *table) Delete(route Route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.routes = slices.DeleteFunc(t.routes, func(r Route) bool { return r == route })
	t.tell()
	return nil
}

func (t *table) tell() {
	if t.changed != nil {
		t.changed <- slices.Clone(t.routes)
	}
}

func TestApply(t *testing.T) {
	kept, moved, gone, fresh := Route{"10.1.0.0/24", "1.1.1.1"}, Route{"10.2.0.0/24", "1.1.1.2"},
		Route{"10.3.0.0/24", "1.1.1.3"}, Route{"10.4.0.0/24", "1.1.1.4"}
	movedTo := Route{moved.Destination, "2.2.2.2"}
	have := &table{routes: []Route{kept, moved, gone}, broken: "10.5.0.0/24"}
	err := apply(have, []Route{{"10.5.0.0/24", "1.1.1.5"}, kept, movedTo, fresh})
	if err == nil {
		t.Error("a route that can't be set is no error")
	}
	if want := []Route{kept, movedTo, fresh}; !slices.Equal(have.routes, want) {
		t.Errorf("got %v, want %v", have.routes, want)
	}
}

func TestRunFollowsNodes(t *testing.T) {
	client := fake.NewClientset(node("me", "10.244.0.0/24", "10.0.0.1"), node("a", "10.244.1.0/24", "10.0.0.2"))
	kept := &table{changed: make(chan []Route, 10)}
	r, err := New(Config{HostnameOverride: "me", Client: client, Table: kept, Filter: &noFilter{}, Resync: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	expect := func(want ...Route) {
		t.Helper()
		select {
		case got := <-kept.changed:
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the table did not change")
		}
	}
	expect(Route{"10.244.1.0/24", "10.0.0.2"})
	if err := client.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// A node that can't forward packets is no node; a machine without pods need not be able to.
func TestForward(t *testing.T) {
	if !NewConfig().Forward {
		t.Error("nodes don't forward")
	}
	for _, forward := range []bool{true, false} {
		changed := make(chan []Route, 1)
		client := fake.NewClientset(node("a", "10.244.1.0/24", "10.0.0.2"))
		r, err := New(Config{
			HostnameOverride: "me", Client: client, Table: &table{changed: changed, still: errors.ErrUnsupported},
			Filter: &noFilter{},
			Resync: time.Hour, Forward: forward,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-changed; cancel() }()
		if err := r.Run(ctx); errors.Is(err, errors.ErrUnsupported) != forward {
			t.Errorf("forward %v: %v", forward, err)
		}
		if forward {
			changed <- nil
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := New(Config{Resync: time.Second}); err == nil {
		t.Error("no kubeconfig is no error")
	}
	if _, err := New(Config{Client: fake.NewClientset()}); err == nil {
		t.Error("no sync period is no error")
	}
}
