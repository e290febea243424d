package servicecidrs

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ranged(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{finalizer}},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func address(ip, by string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip,
		Labels: map[string]string{networkingv1.LabelManagedBy: by}}}
}

func TestPlanOfDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		others    []*networkingv1.ServiceCIDR
		addresses []*networkingv1.IPAddress
		since     time.Duration
		want      string
	}{
		"nothing depends on it": {since: time.Minute, want: "remove"},
		"too soon":              {since: 4 * time.Second, want: "again"},
		"an address": {addresses: []*networkingv1.IPAddress{address("10.0.0.7", allocator)},
			since: time.Minute, want: "held"},
		"an address of its other kind": {addresses: []*networkingv1.IPAddress{address("fd00::7", allocator)},
			since: time.Minute, want: "held"},
		"an address elsewhere": {addresses: []*networkingv1.IPAddress{address("10.1.0.7", allocator)},
			since: time.Minute, want: "remove"},
		"address in use": {addresses: []*networkingv1.IPAddress{address("10.0.0.7", "me")},
			since: time.Minute, want: "remove"},
		"an address that another range has too": {
			others:    []*networkingv1.ServiceCIDR{ranged("part", "10.0.0.0/29")},
			addresses: []*networkingv1.IPAddress{address("10.0.0.6", allocator)}, since: time.Minute, want: "remove",
		},
		"an address beside what another range has": {
			others:    []*networkingv1.ServiceCIDR{ranged("part", "10.0.0.0/29")},
			addresses: []*networkingv1.IPAddress{address("10.0.0.9", allocator)}, since: time.Minute, want: "held",
		},
		"another range has all": {
			others:    []*networkingv1.ServiceCIDR{ranged("all", "10.0.0.0/16", "fd00::/64")},
			addresses: []*networkingv1.IPAddress{address("10.0.0.9", allocator)}, since: time.Minute, want: "remove",
		},
	} {
		r := ranged("r", "10.0.0.0/24", "fd00::/112")
		r.DeletionTimestamp = &metav1.Time{Time: now.Add(-c.since)}
		d := plan(r, append(c.others, r), c.addresses, now)
		got := "nothing"
		switch {
		case d.removeFinalizer && d.condition == nil:
			got = "remove"
		case d.again == grace-c.since && d.condition == nil:
			got = "again"
		case d.condition != nil && d.condition.Status == metav1.ConditionFalse &&
			d.condition.Reason == networkingv1.ServiceCIDRReasonTerminating:
			got = "held"
		}
		if got != c.want || d.addFinalizer {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.want, d)
		}
	}
}

func TestPlanOfOneThatStays(t *testing.T) {
	r := ranged("r", "10.0.0.0/24")
	r.Finalizers = nil
	d := plan(r, []*networkingv1.ServiceCIDR{r}, nil, now)
	if !d.addFinalizer || d.condition == nil || d.condition.Status != metav1.ConditionTrue {
		t.Fatalf("new: %+v", d)
	}
	r.Finalizers, r.Status.Conditions = []string{finalizer}, []metav1.Condition{*d.condition}
	if d := plan(r, []*networkingv1.ServiceCIDR{r}, nil, now); d != (decision{}) {
		t.Errorf("one that is ready: %+v", d)
	}
}

func TestRangeBecomesReadyAndIsHeld(t *testing.T) {
	leaving := ranged("leaving", "10.2.0.0/24")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	held := ranged("held", "10.1.0.0/24")
	held.DeletionTimestamp = leaving.DeletionTimestamp
	fresh := ranged("fresh", "10.0.0.0/24")
	fresh.Finalizers = nil
	client := runnertest.NewClient(fresh, held, leaving, address("10.1.0.1", allocator))
	runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) { return New(env) })
	ready := func(name string, status metav1.ConditionStatus, finalizers ...string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			r, err := client.NetworkingV1().ServiceCIDRs().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(r.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
			has := status == "" && c == nil || c != nil && c.Status == status
			return has && slices.Equal(r.Finalizers, finalizers), name
		})
	}
	ready("fresh", metav1.ConditionTrue, finalizer)
	ready("held", metav1.ConditionFalse, finalizer)
	ready("leaving", "")
	if err := client.NetworkingV1().IPAddresses().Delete(t.Context(), "10.1.0.1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ready("held", metav1.ConditionFalse)
}
