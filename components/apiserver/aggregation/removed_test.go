package aggregation

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestRemoved: an APIService of a built-in version that a user deletes is not recreated, and the removal is published.
func TestRemoved(t *testing.T) {
	store, told := &objectstest.Store{}, View{}
	a, err := New(Config{Objects: store, Changed: func(v View) { told = v },
		Clock: clocktesting.NewFakeClock(testTime)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Serve(kinds.Table(api.Deps{}), nil); err != nil {
		t.Fatal(err)
	}
	passes := func() int {
		for range 2 {
			if err := a.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if own := len(registrations(kinds.Table(api.Deps{}), nil)); len(told.Own) != own {
			t.Errorf("%d of its own, want %d", len(told.Own), own)
		}
		return len(told.Services)
	}
	all := passes()
	if len(told.Removed) > 0 {
		t.Errorf("at first: %v", told.Removed)
	}
	store.Remove(resource, "", "v1.apps")
	if left := passes(); left != all-1 || len(told.Removed) != 1 ||
		!told.Removed[schema.GroupVersion{Group: "apps", Version: "v1"}] {
		t.Errorf("%d of %d are left, removed: %v", left, all, told.Removed)
	}
}
