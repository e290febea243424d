package bootstrap

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// slow is a store that takes its time for the first read of some resources.
type slow struct {
	*objectstest.Store
	mu    sync.Mutex
	takes map[string]time.Duration
}

func (s *slow) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	if err := s.wait(ctx, resource); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, resource, namespace, name)
}

func (s *slow) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	return s.Get(ctx, resource, namespace, name)
}

func (s *slow) wait(ctx context.Context, resource schema.GroupResource) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	takes := s.takes[resource.Resource]
	delete(s.takes, resource.Resource)
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestLeavesASlowStore: a server that ends waits a while for its store, and for each thing that tells of it as long;
// what it leaves behind is an error.
func TestLeavesASlowStore(t *testing.T) {
	for _, c := range []struct {
		endpoints, lease, want time.Duration
		left                   []string
	}{
		{9 * time.Second, 8 * time.Second, 9 * time.Second, nil},
		{time.Hour, 8 * time.Second, 10 * time.Second, []string{"endpoints"}},
		{9 * time.Second, time.Hour, 10 * time.Second, []string{"lease"}},
		{time.Hour, time.Hour, 10 * time.Second, []string{"endpoints", "lease"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &slow{Store: &objectstest.Store{}}
			b := New(Config{
				Objects: store, Identity: "host", AdvertiseAddress: net.ParseIP("192.0.2.1"), SecurePort: 6443,
				ServiceIP: net.ParseIP("10.96.0.1"), Servers: 1, Clock: clock.RealClock{},
			})
			if err := b.take(t.Context(),
				[]step{{"lease", b.lease.begin}, {"endpoints", b.endpoints.ensure}}); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var lines []string
			logger := funcr.New(func(_, line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) },
				funcr.Options{})
			store.takes = map[string]time.Duration{"endpoints": c.endpoints, "leases": c.lease}
			began := time.Now()
			ended, end := context.WithCancel(klog.NewContext(t.Context(), logger))
			end()
			if err := b.Run(ended, nil); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%+v: it took %v", c, took)
			}
			_, err := store.Store.Get(t.Context(), leases, "kube-system", LeaseName("host"))
			if left := slices.Contains(c.left, "lease"); left != (err == nil) {
				t.Errorf("%+v: of the lease: %v", c, err)
			}
			endpoints, err := objects.As[*corev1.Endpoints](
				store.Store.Get(t.Context(), corev1.Resource("endpoints"), "default", "kubernetes"))
			if left := slices.Contains(c.left, "endpoints"); err != nil || left != (len(endpoints.Subsets) > 0) {
				t.Errorf("%+v: endpoints are %v, %v", c, endpoints, err)
			}
			if len(lines) != len(c.left) {
				t.Errorf("%+v: it says %q", c, lines)
			}
			for i, what := range slices.Sorted(slices.Values(lines)) {
				if !strings.Contains(what, `"error"="context deadline exceeded"`) ||
					!strings.Contains(what, `"what"="`+c.left[i]+`"`) {
					t.Errorf("%+v: it says %q", c, what)
				}
			}
		})
	}
}

// replaced is a store in which a Lease is another one as soon as it was read.
type replaced struct{ *objectstest.Store }

func (s replaced) Delete(ctx context.Context, resource schema.GroupResource, namespace, name string,
	uid types.UID) error {
	return s.Store.Delete(ctx, resource, namespace, name, uid+"-former")
}

// TestLeaseOfTheNextRun that comes just as this one ends stays, which is no error.
func TestLeaseOfTheNextRun(t *testing.T) {
	b := New(Config{Objects: replaced{&objectstest.Store{}}, Identity: "host", Clock: clock.RealClock{}})
	if err := errors.Join(b.lease.begin(t.Context()), b.lease.end(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := b.writer.objects.Get(t.Context(), leases, "kube-system", LeaseName("host")); err != nil {
		t.Error(err)
	}
}

// deaf is a store that doesn't tell of the endpoints when it is asked first.
type deaf struct {
	*objectstest.Store
	asked bool
}

func (s *deaf) Get(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object, error) {
	if resource.Resource == "endpoints" && !s.asked {
		s.asked = true
		return nil, apierrors.NewServiceUnavailable("not now")
	}
	return s.Store.Get(ctx, resource, namespace, name)
}

// TestNoEndpointsForWhoLeaves: where it isn't known whether there are endpoints, none are made.
func TestNoEndpointsForWhoLeaves(t *testing.T) {
	store := &objectstest.Store{}
	b := New(Config{Objects: &deaf{Store: store}, Clock: clock.RealClock{}})
	if err := b.endpoints.shrink(t.Context(), nil); !apierrors.IsServiceUnavailable(err) || store.Writes > 0 {
		t.Errorf("%v, %d writes", err, store.Writes)
	}
}
