package aggregation

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// goneBack is a store whose next list finds that it was restored.
type goneBack struct {
	objects.Store
	once bool
}

func (g *goneBack) List(ctx context.Context, resource schema.GroupResource, namespace string) ([]api.Object, error) {
	if !g.once {
		g.once = true
		return nil, apierrors.NewServiceUnavailable("restored")
	}
	return g.Store.List(ctx, resource, namespace)
}

// TestSyncOutlivesARestore: what is unavailable for a moment is no server that stops.
func TestSyncOutlivesARestore(t *testing.T) {
	store, clock := &objectstest.Store{}, clocktesting.NewFakeClock(testTime)
	a, err := New(Config{Objects: store, Whole: &goneBack{Store: store}, Clock: clock, Changed: func(View) {}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Sync(t.Context()) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(time.Millisecond):
			clock.Step(retryPause)
		}
	}
}
