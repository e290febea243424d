package services

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestLossesAreSeenAtOnce: an address that goes under its service, and a service that nobody took an address for.
func TestLossesAreSeenAtOnce(t *testing.T) {
	f := newFixture(t, 100, "10.96.0.0/24")
	kept := service("kept", corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
	f.write(t, kept, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, Events{}) }()
	until := func(name, user string) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
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
