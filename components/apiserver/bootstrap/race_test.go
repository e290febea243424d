package bootstrap

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// blind is a store whose memory has not heard of anything yet: every Get finds nothing, as when another server has just
// written what this one is about to.
type blind struct{ *objectstest.Store }

func (b blind) Get(_ context.Context, resource schema.GroupResource, _, name string) (kinds.Object, error) {
	return nil, apierrors.NewNotFound(resource, name)
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
