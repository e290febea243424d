package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// TestDriverPreventsScheduling: fields of a disabled feature that an object already uses may be changed.
func TestDriverPreventsScheduling(t *testing.T) {
	driver := func(prevent *bool) *storagev1.CSIDriver {
		d := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: prevent}}
		d.Generation = 1
		return d
	}
	for _, tc := range []struct{ is, was, want *bool }{
		{ptr.To(true), nil, nil},
		{ptr.To(true), ptr.To(false), ptr.To(true)},
		{nil, ptr.To(true), nil},
	} {
		obj, old := driver(tc.is), driver(tc.was)
		csiDrivers().Strategy.PrepareUpdate(t.Context(), obj, old)
		if got := obj.Spec.PreventPodSchedulingIfMissing; !ptr.Equal(got, tc.want) ||
			(obj.Generation == 2) != !ptr.Equal(got, tc.was) {
			t.Errorf("%v after %v: got %v of generation %d", tc.is, tc.was, got, obj.Generation)
		}
	}
}
