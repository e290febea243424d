package services

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestChangesAreLookedAtOnce: an address that is deleted under its service, or is given to another, one that no service
// uses, and a service without an allocated address.
func TestChangesAreLookedAtOnce(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := service("kept", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	f.write(t, kept, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, Events{}) }()
	until := func(name, user string) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true,
			func(ctx context.Context) (bool, error) {
				obj, err := f.objects.Get(ctx, ipAddresses, "", name)
				return err == nil && obj.(*networkingv1.IPAddress).Spec.ParentRef.Name == user, nil
			}); err != nil {
			t.Errorf("%s is not written down as of %s", name, user)
		}
	}
	stray := service("stray", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	stray.Spec.ClusterIP, stray.Spec.ClusterIPs = "10.96.0.200", []string{"10.96.0.200"}
	f.objects.Put(services, stray)
	until("10.96.0.200", "stray")
	f.objects.Remove(ipAddresses, "", kept.Spec.ClusterIP)
	until(kept.Spec.ClusterIP, "kept")
	wrong := addressObject(netip.MustParseAddr(kept.Spec.ClusterIP), kept).(*networkingv1.IPAddress)
	wrong.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "gone"}
	f.objects.Put(ipAddresses, wrong)
	until(kept.Spec.ClusterIP, "kept")
	leak := addressObject(netip.MustParseAddr("10.96.0.77"), kept)
	f.objects.Put(ipAddresses, leak)
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			_, err := f.objects.Get(ctx, ipAddresses, "", "10.96.0.77")
			return apierrors.IsNotFound(err), nil
		}); err != nil {
		t.Error("what no service has is not removed")
	}
	f.objects.Remove(services, "default", "stray")
	f.objects.Remove(ipAddresses, "", "10.96.0.200")
	f.objects.Remove(ipAddresses, "", kept.Spec.ClusterIP)
	until(kept.Spec.ClusterIP, "kept")
	if _, err := f.objects.Get(ctx, ipAddresses, "", "10.96.0.200"); !apierrors.IsNotFound(err) {
		t.Errorf("the address of a service that is gone: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNewAddressesAreLeftAlone: the service that an address was made for is stored a moment later, or the address is
// given back.
func TestNewAddressesAreLeftAlone(t *testing.T) {
	start := time.Now()
	there := func(kind corev1.ServiceType, made time.Time) *corev1.Service {
		s := service("s", kind)
		s.CreationTimestamp = metav1.NewTime(made)
		return s
	}
	widened := there(corev1.ServiceTypeClusterIP, start.Add(-time.Hour))
	widened.Spec.ClusterIP, widened.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"}
	for name, c := range map[string]struct {
		service *corev1.Service
		until   time.Duration
	}{
		"of a service that isn't there": {nil, untilStored},
		"of an external name":           {there(corev1.ServiceTypeExternalName, start.Add(-time.Hour)), untilStored},
		"of a service that is older":    {there(corev1.ServiceTypeClusterIP, start.Add(-time.Hour)), untilGivenBack},
		"of one that is as old":         {there(corev1.ServiceTypeClusterIP, start), untilGivenBack},
		"of one that is newer":          {there(corev1.ServiceTypeClusterIP, start.Add(time.Second)), 0},
		"of one of another family":      {widened, untilStored},
	} {
		f := newFixture(t, 100, "10.96.0.0/24")
		clock := clocktesting.NewFakeClock(start)
		f.Allocator.Clock = clock
		if c.service != nil {
			f.objects.Put(services, c.service)
		}
		address := addressObject(netip.MustParseAddr("10.96.0.9"), service("s", corev1.ServiceTypeClusterIP))
		address.SetCreationTimestamp(metav1.NewTime(start))
		f.objects.Put(ipAddresses, address)
		if err := f.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		key := item{address: true, name: types.NamespacedName{Name: address.GetName()}}
		if wait, ok := f.requeued[key]; ok != (c.until > 0) || wait != c.until {
			t.Errorf("%s: requeued: %v, after %v", name, ok, wait)
		}
		if c.until > 0 {
			f.expect(t, 1, 0)
			clock.Step(c.until)
			if err := f.reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		f.expect(t, 0, 0)
	}
}

// TestWhatCantBeSettledIsLookedAtAgain: an address that is written down as another's, who doesn't have it, goes first,
// and is its user's then.
func TestWhatCantBeSettledIsLookedAtAgain(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	clock := clocktesting.NewFakeClock(time.Now())
	f.Allocator.Clock = clock
	kept, other := service("kept", corev1.ServiceTypeClusterIP), service("other", corev1.ServiceTypeClusterIP)
	f.write(t, kept, nil)
	f.write(t, other, nil)
	ip := kept.Spec.ClusterIP
	wrong := addressObject(netip.MustParseAddr(ip), other)
	f.objects.Put(ipAddresses, wrong)
	look := func(what item) {
		t.Helper()
		if err := f.reconcile(t.Context(), what); err != nil {
			t.Fatal(err)
		}
	}
	look(item{name: types.NamespacedName{Namespace: "default", Name: "kept"}})
	look(item{address: true, name: types.NamespacedName{Name: ip}})
	if _, err := f.objects.Get(t.Context(), ipAddresses, "", ip); !apierrors.IsNotFound(err) {
		t.Fatalf("what nobody has: %v", err)
	}
	if wait := f.requeued[item{name: types.NamespacedName{Namespace: "default", Name: "kept"}}]; wait != untilGivenBack {
		t.Errorf("the user of the address is requeued after %v", wait)
	}
	clock.Step(untilGivenBack)
	look(item{name: types.NamespacedName{Namespace: "default", Name: "kept"}})
	if obj, err := f.objects.Get(t.Context(), ipAddresses, "", ip); err != nil ||
		obj.(*networkingv1.IPAddress).Spec.ParentRef.Name != "kept" {
		t.Errorf("became %v, %v", obj, err)
	}
}

// TestOldAddresses: releases of old took leading zeros, and the other way to write an IPv4 address.
func TestOldAddresses(t *testing.T) {
	s := service("s", corev1.ServiceTypeClusterIP)
	s.Spec.ClusterIPs = []string{"010.096.000.005", "::ffff:10.96.0.6", "None"}
	want := []netip.Addr{netip.MustParseAddr("10.96.0.5"), netip.MustParseAddr("10.96.0.6")}
	if got := clusterIPs(s); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
