package bootstrap

import (
	"context"
	"errors"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// blind is a store whose memory has not heard of anything yet: every Get finds nothing, as when another server has just
// written what this one is about to.
type blind struct{ *objectstest.Store }

func (b blind) Get(_ context.Context, resource schema.GroupResource, _, name string) (api.Object, error) {
	return nil, apierrors.NewNotFound(resource, name)
}

// taken is a store in which another server has the address of the Service already, and stores the Service a moment
// later.
type taken struct{ blind }

func (s taken) Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object, error) {
	if resource.Resource != "services" {
		return s.blind.Create(ctx, resource, obj)
	}
	time.AfterFunc(30*time.Millisecond, func() { s.Put(resource, obj) })
	return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, obj.GetName(), nil)
}

// outpaced is a store in which another server has deleted and recreated a slice since this one read it.
type outpaced struct {
	*objectstest.Store
	gone bool
}

func (s outpaced) Delete(_ context.Context, resource schema.GroupResource, _, name string, _ types.UID) error {
	if s.gone {
		return apierrors.NewNotFound(resource, name)
	}
	return apierrors.NewConflict(resource, name, errors.New("another UID"))
}

func TestASliceThatAnotherServerMakesAnew(t *testing.T) {
	for _, gone := range []bool{true, false} {
		store := &objectstest.Store{}
		b := newBootstrap(store, "one", "192.0.2.1", testingclock.NewFakeClock(time.Unix(1700000000, 0)))
		if err := errors.Join(b.Ensure(t.Context()), b.endpoints.ensure(t.Context())); err != nil {
			t.Fatal(err)
		}
		_, slice := endpointsOf(t, store)
		slice.AddressType = discoveryv1.AddressTypeIPv6
		store.Put(discoveryv1.Resource("endpointslices"), slice)
		b.writer.objects = outpaced{store, gone}
		if err := errors.Join(b.Ensure(t.Context()), b.endpoints.ensure(t.Context())); err != nil {
			t.Errorf("gone %v: %v", gone, err)
		}
	}
}

func TestAnAddressThatAnotherServerTakesIsWaitedFor(t *testing.T) {
	store := &objectstest.Store{}
	b := newBootstrap(store, "one", "192.0.2.1", testingclock.NewFakeClock(time.Unix(1700000000, 0)))
	b.writer.objects = taken{blind{store}}
	if err := b.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatComesSecondAgrees(t *testing.T) {
	ctx := context.Background()
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	if err := newBootstrap(store, "one", "192.0.2.1", clk).Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	second := newBootstrap(store, "two", "192.0.2.2", clk)
	second.cfg.Objects = blind{store}
	if err := second.Ensure(ctx); err != nil {
		t.Fatalf("the second server gives up: %v", err)
	}
}

// refusing is a store in which something else has the address of the Service. It counts the reads of the Service.
type refusing struct {
	*objectstest.Store
	looks *int
}

func (s refusing) Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object, error) {
	if resource.Resource != "services" {
		return s.Store.Create(ctx, resource, obj)
	}
	return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, obj.GetName(), nil)
}

func (s refusing) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (api.Object,
	error) {
	if resource.Resource == "services" {
		*s.looks++
	}
	return s.Store.Live(ctx, resource, namespace, name)
}

// TestRunWaitsForNobody: Run must not block on other servers, as it has its lease to renew.
func TestRunWaitsForNobody(t *testing.T) {
	looks := 0
	b := newBootstrap(refusing{&objectstest.Store{}, &looks}, "one", "192.0.2.1",
		testingclock.NewFakeClock(time.Unix(1700000000, 0)))
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.Run(ended, nil); err != nil {
		t.Fatal(err)
	}
	looks = 0
	if err := b.ensureService(t.Context()); !apierrors.IsInvalid(err) || looks != 1 {
		t.Errorf("looked %d times, got %v", looks, err)
	}
}
