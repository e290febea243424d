package bootstrap

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func newBootstrap(store objects.Store, host, ip string, clk *testingclock.FakeClock) *Bootstrap {
	return New(Config{
		Objects: store, Identity: host, AdvertiseAddress: net.ParseIP(ip), SecurePort: 6443, ServiceIP: net.ParseIP("10.96.0.1"),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		ClientCA:     func() []byte { return []byte("pem") }, RequestHeaderCA: func() []byte { return []byte("pem2") }, Clock: clk,
		RequestHeader: authn.RequestHeader{UsernameHeaders: []string{"X-Remote-User"}},
	})
}

func TestEnsureIsIdempotent(t *testing.T) {
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := newBootstrap(store, "host", "192.0.2.1", clk)
	if err := b.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	first := store.Writes
	if first < 140 {
		t.Errorf("only %d writes on an empty store", first)
	}
	if err := b.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	if again := store.Writes - first; again != 1 { // the lease
		t.Errorf("second Ensure wrote %d objects, want only the lease", again)
	}
}

func TestReconcileKeepsWhatOthersAdded(t *testing.T) {
	ctx := context.Background()
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := newBootstrap(store, "host", "192.0.2.1", clk)
	if err := b.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	roles := rbacv1.Resource("clusterroles")
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}
	change := func(name string, f func(*rbacv1.ClusterRole)) {
		if _, err := store.Update(ctx, roles, "", name, func(o kinds.Object) (kinds.Object, error) {
			f(o.(*rbacv1.ClusterRole))
			return o, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	change("system:basic-user", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{extra} })
	change("system:discovery", func(r *rbacv1.ClusterRole) {
		r.Rules, r.Annotations[rbacv1.AutoUpdateAnnotationKey] = nil, "false"
	})
	if err := b.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	mended, _ := objects.As[*rbacv1.ClusterRole](store.Get(ctx, roles, "", "system:basic-user"))
	if len(mended.Rules) < 3 || mended.Rules[0].Resources[0] != "widgets" {
		t.Errorf("rules after mending: %v", mended.Rules)
	}
	kept, _ := objects.As[*rbacv1.ClusterRole](store.Get(ctx, roles, "", "system:discovery"))
	if len(kept.Rules) != 0 {
		t.Errorf("a role with autoupdate=false was mended: %v", kept.Rules)
	}
}

func TestEndpointsFollowServers(t *testing.T) {
	ctx := context.Background()
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	one, two := newBootstrap(store, "one", "192.0.2.1", clk), newBootstrap(store, "two", "192.0.2.2", clk)
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		endpoints, err := objects.As[*corev1.Endpoints](store.Get(ctx, corev1.Resource("endpoints"), "default", "kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range endpoints.Subsets[0].Addresses {
			got = append(got, a.IP)
		}
		slice, err := objects.As[*discoveryv1.EndpointSlice](store.Get(ctx, discoveryv1.Resource("endpointslices"), "default", "kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || len(slice.Endpoints) != len(want) {
			t.Fatalf("%s: endpoints %v, slice %v, want %v", when, got, slice.Endpoints, want)
		}
		for i := range want {
			if got[i] != want[i] || slice.Endpoints[i].Addresses[0] != want[i] {
				t.Errorf("%s: endpoints %v, slice %v, want %v", when, got, slice.Endpoints, want)
			}
		}
	}
	for _, b := range []*Bootstrap{one, two} {
		if err := b.Ensure(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check("both up", "192.0.2.1", "192.0.2.2")
	clk.Step(2 * endpointLife)
	if err := one.renewLease(ctx); err != nil {
		t.Fatal(err)
	}
	if err := one.ensureEndpoints(ctx); err != nil {
		t.Fatal(err)
	}
	check("two died", "192.0.2.1")
	two.renewLease(ctx)
	two.ensureEndpoints(ctx)
	check("two is back", "192.0.2.1", "192.0.2.2")
	two.leave(ctx)
	check("two left", "192.0.2.1")
}
