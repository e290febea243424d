package bootstrap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func newBootstrap(store objects.Store, host, ip string, clk *testingclock.FakeClock) *Bootstrap {
	return sharing(store, &Masters{Store: memory.New(clk), Prefix: "/registry"}, host, ip, clk)
}

func sharing(store objects.Store, masters *Masters, host, ip string, clk *testingclock.FakeClock) *Bootstrap {
	return New(Config{
		Masters: masters,
		Objects: store, Identity: host, AdvertiseAddress: net.ParseIP(ip), SecurePort: 6443,
		ServiceIP:    net.ParseIP("10.96.0.1"),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Clock:        clk,
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
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"},
		Resources: []string{"widgets"}}
	change := func(name string, f func(*rbacv1.ClusterRole)) {
		if _, err := store.Update(ctx, roles, "", name, func(o api.Object) (api.Object, error) {
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
	masters := &Masters{Store: memory.New(clk), Prefix: "/registry"}
	defer masters.Store.Close()
	one, two := sharing(store, masters, "one", "192.0.2.1", clk), sharing(store, masters, "two", "192.0.2.2", clk)
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		endpoints, err := objects.As[*corev1.Endpoints](
			store.Get(ctx, corev1.Resource("endpoints"), "default", "kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		for _, subset := range endpoints.Subsets {
			for _, a := range subset.Addresses {
				got = append(got, a.IP)
			}
		}
		slice, err := objects.As[*discoveryv1.EndpointSlice](
			store.Get(ctx, discoveryv1.Resource("endpointslices"), "default", "kubernetes"))
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
	service, err := objects.As[*corev1.Service](store.Get(ctx, corev1.Resource("services"), "default", "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	// It is asked for, as who manages the field shows.
	if p := service.Spec.IPFamilyPolicy; p == nil || *p != corev1.IPFamilyPolicySingleStack {
		t.Errorf("the policy of the service is %v", p)
	}
	if _, err := store.Get(ctx, corev1.Resource("endpoints"), "default", "kubernetes"); !apierrors.IsNotFound(err) {
		t.Errorf("none is ready, but there are endpoints: %v", err)
	}
	for _, b := range []*Bootstrap{one, two} {
		if err := b.endpoints.ensure(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check("both up", "192.0.2.1", "192.0.2.2")
	if err := sharing(store, masters, "two", "192.0.2.2", clk).Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	check("two starts anew", "192.0.2.1")
	if err := two.endpoints.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	check("two is ready", "192.0.2.1", "192.0.2.2")
	clk.Step(2 * masterLife)
	eventually(t, func() bool { all, err := masters.list(ctx); return err == nil && len(all) == 0 })
	if err := one.endpoints.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	check("two died", "192.0.2.1")
	if err := two.endpoints.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	check("two is back", "192.0.2.1", "192.0.2.2")
	local := sharing(store, masters, "local", "127.0.0.1", clk)
	if err := errors.Join(local.Ensure(ctx), local.endpoints.ensure(ctx)); err != nil {
		t.Fatal(err)
	}
	if all, err := masters.list(ctx); err != nil || len(all) != 3 {
		t.Errorf("with one at its loopback %v are alive, %v", all, err)
	}
	check("one at its loopback", "192.0.2.1", "192.0.2.2")
	local.leave(ctx)
	two.leave(ctx)
	check("two left", "192.0.2.1")
	one.leave(ctx)
	check("all left")
	if err := one.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	check("one starts anew")
}

// TestLeaseOfARun: each run of a server begins a Lease of its own, and ends no other.
func TestLeaseOfARun(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	uid := func() string {
		lease, err := store.Get(ctx, leases, "kube-system", LeaseName("host"))
		if err != nil {
			return ""
		}
		return string(lease.GetUID())
	}
	former := newBootstrap(store, "host", "192.0.2.1", clk)
	defer former.cfg.Masters.Store.Close()
	if err := former.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	old, b := uid(), newBootstrap(store, "host", "192.0.2.1", clk)
	defer b.endpoints.masters.Store.Close()
	if err := b.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	if now := uid(); old == "" || now == "" || now == old {
		t.Errorf("the Lease was %q and is %q", old, now)
	}
	if former.leave(ctx); uid() == "" {
		t.Error("the run before took the Lease of this one")
	}
	if b.leave(ctx); uid() != "" {
		t.Error("the Lease is still there when the server has left")
	}
}

// TestMastersAsUpstream: servers of both kinds on one store must understand each other's keys.
func TestMastersAsUpstream(t *testing.T) {
	ctx, clk := t.Context(), testingclock.NewFakeClock(time.Unix(1700000000, 0))
	m := &Masters{Store: memory.New(clk), Prefix: "/registry"}
	defer m.Store.Close()
	for range 2 {
		if err := m.renew(ctx, net.ParseIP("192.0.2.1")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := m.Store.Get(ctx, "/registry/masterleases/192.0.2.1")
	const want = "k8s\x00\n\x0f\n\x02v1\x12\tEndpoints\x12#\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x02B\x00\x12\x0f\n\r\n\t192.0.2.1\x1a\x00\x1a\x00\"\x00"
	if err != nil || string(got.Value) != want {
		t.Errorf("got %q, %v; want %q", got.Value, err, want)
	}
	if err := m.remove(ctx, net.ParseIP("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	if all, err := m.list(ctx); err != nil || len(all) != 0 {
		t.Errorf("after it left: %v, %v", all, err)
	}
}

// TestServersAreForgotten an hour after their last sign of life, and not before.
func TestServersAreForgotten(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	one, two := newBootstrap(store, "one", "192.0.2.1", clk), newBootstrap(store, "two", "192.0.2.2", clk)
	for _, b := range []*Bootstrap{one, two} {
		if err := b.lease.renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (out []string) {
		list, err := objects.ListAs[*coordinationv1.Lease](store.List(ctx, leases, "kube-system"))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			out = append(out, l.Name)
		}
		return out
	}
	clk.Step(leaseDuration)
	if err := one.lease.renew(ctx); err != nil {
		t.Fatal(err)
	}
	if err := one.lease.deleteExpired(ctx); err != nil || len(names()) != 2 {
		t.Fatalf("an hour later: %v, %v", names(), err)
	}
	clk.Step(time.Second)
	if err := one.lease.deleteExpired(ctx); err != nil || !slices.Equal(names(), []string{LeaseName("one")}) {
		t.Errorf("later: %v, %v", names(), err)
	}
	one.lease.peerAddress = "192.0.2.1:6443"
	if err := one.lease.renew(ctx); err != nil {
		t.Fatal(err)
	}
	lease, err := objects.As[*coordinationv1.Lease](store.Get(ctx, leases, "kube-system", LeaseName("one")))
	if err != nil || lease.Annotations["kubernetes.io/peer-advertise-address"] != "192.0.2.1:6443" {
		t.Errorf("others are told of %v, %v", lease, err)
	}
	if got := LeaseName("vm"); got != "apiserver-wlv32tlttr4jl3gtroqexyxapa" {
		t.Errorf("the lease is %s, which is not upstream's", got)
	}
}

func eventually(t *testing.T, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain")
		}
	}
}

// TestServiceCIDROfBothFamilies: addresses of one family are joined by those of the other, which a server has been
// given since; other ServiceCIDRs are unchanged and not marked ready.
func TestServiceCIDROfBothFamilies(t *testing.T) {
	ctx, clk := context.Background(), testingclock.NewFakeClock(time.Unix(1700000000, 0))
	resource := networkingv1.Resource("servicecidrs")
	both := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00::/108")}
	for first, want := range map[string][]string{"10.96.0.0/16": {"10.96.0.0/16", "fd00::/108"},
		"10.97.0.0/16": {"10.97.0.0/16"}} {
		store := &objectstest.Store{}
		store.Put(resource, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{first}}})
		b := newBootstrap(store, "host", "192.0.2.1", clk)
		b.serviceCIDR.ranges = both
		for range 2 {
			if err := b.serviceCIDR.ensure(ctx); err != nil {
				t.Fatal(err)
			}
		}
		got, err := objects.As[*networkingv1.ServiceCIDR](store.Get(ctx, resource, "", "kubernetes"))
		if err != nil || !slices.Equal(got.Spec.CIDRs, want) || len(got.Status.Conditions) != len(want)-1 {
			t.Errorf("%s became %+v, %v", first, got, err)
		}
	}
}
