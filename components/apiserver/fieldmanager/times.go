package fieldmanager

import (
	"reflect"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// The outcomes of a comparison, as upstream's metric apiserver_request_timestamp_comparison_time names them.
const (
	unequalFast = "unequal_objects_fast"
	unequalSlow = "unequal_objects_slow"
	allEqual    = "equal_objects"
)

// IgnoreTimestampOnly gives obj the managed fields of old if they differ in their times alone, and the objects in
// nothing else: such a write is then none. The comparison is measured as upstream does.
func IgnoreTimestampOnly(obj, old api.Object) {
	start := time.Now()
	endpointmetrics.RecordTimestampComparisonLatency(compareTimes(obj, old), time.Since(start))
}

func compareTimes(obj, old api.Object) (way string) {
	now, before := obj.GetManagedFields(), old.GetManagedFields()
	if len(now) != len(before) || len(now) == 0 {
		return unequalFast
	}
	changed := false
	for i := range now {
		a, b := now[i], before[i]
		changed = changed || !a.Time.Equal(b.Time)
		a.Time, b.Time = nil, nil
		if !reflect.DeepEqual(a, b) {
			return unequalFast
		}
	}
	if !changed {
		return unequalFast
	}
	obj.SetManagedFields(before)
	if !codec.SameContent(obj, old) {
		obj.SetManagedFields(now)
		return unequalSlow
	}
	return allEqual
}
