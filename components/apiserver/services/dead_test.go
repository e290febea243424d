package services

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// dead is a store that doesn't answer.
type dead struct{}

func (dead) Update(ctx context.Context, _ func(*big.Int) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (d dead) Rebuild(ctx context.Context, change func(*big.Int) error) error {
	return d.Update(ctx, change)
}

func (dead) Get(ctx context.Context) (*big.Int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// deadObjects is a store of objects that takes no new ones.
type deadObjects struct{ objects.Store }

func (deadObjects) Create(ctx context.Context, _ schema.GroupResource, _ api.Object) (api.Object, error) {
	<-ctx.Done()
	return nil, apierrors.NewTimeoutError("as the handlers say it", 0)
}

// TestStoreIsDead: a write ends with its time, and what can't be given back is left to repairs.
func TestStoreIsDead(t *testing.T) {
	f := newFixture(t, 10, "10.96.0.0/24")
	f.giveBackTime = time.Millisecond
	gone, leave := context.WithCancel(t.Context())
	leave()
	kept := service("kept", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
	end, err := f.Allocate(gone, kept, nil, false)
	if err != nil {
		t.Fatalf("of a client that went away: %v", err)
	}
	f.ports.ranges = dead{}
	end(api.NotStored)
	if f.isPendingPort(int(kept.Spec.Ports[0].NodePort)) {
		t.Error("a port is held for a write that has ended")
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err = f.Allocate(short, service("new", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80}), nil,
		false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ports: got %v", err)
	}
	f.addresses.objects = deadObjects{f.objects}
	chosen := service("chosen", corev1.ServiceTypeClusterIP)
	chosen.Spec.ClusterIP, chosen.Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9"}
	for _, s := range []*corev1.Service{service("any", corev1.ServiceTypeClusterIP), chosen} {
		again, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err = f.Allocate(again, s, nil, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("addresses, %s: got %v", s.Name, err)
		}
	}
}
