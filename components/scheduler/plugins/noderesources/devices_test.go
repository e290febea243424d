package noderesources

import (
	"maps"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

// TestScoresDevices: where a node lacks an extended resource, the devices of the class that serves it are scored.
func TestScoresDevices(t *testing.T) {
	const gpu = "example.com/gpu"
	plain := func(name string) resourcev1.Device { return schedulertest.Device(name, "m", nil) }
	shared := schedulertest.Slice("shared", plain("s"))
	shared.Spec.NodeName, shared.Spec.AllNodes = nil, ptr.To(true)
	s := schedulertest.Snapshot(
		schedulertest.Node("free", "cpu=4"), schedulertest.Node("used", "cpu=4"), schedulertest.Node("none", "cpu=4"),
		schedulertest.Node("plugin", "cpu=4 example.com/gpu=4"),
		schedulertest.DeviceClass("gpus", schedulertest.Serves(gpu)), shared,
		schedulertest.Slice("free", plain("1"), plain("2"), plain("3")),
		schedulertest.Slice("used", plain("1"), plain("2"), plain("3")),
		schedulertest.Allocated(schedulertest.ResourceClaim("c", schedulertest.Exactly("r", "gpus", 1)), "r", "used", "2"))
	for name, c := range map[string]struct {
		devices bool
		rate    func(taken, allocatable int64) int64
		want    map[string]int64
	}{
		"least": {true, LeastAllocated, map[string]int64{"free": 75, "used": 50, "none": 0, "plugin": 75}},
		"most":  {true, MostAllocated, map[string]int64{"free": 25, "used": 50, "none": 100, "plugin": 25}},
		"off":   {false, LeastAllocated, map[string]int64{"free": 0, "used": 0, "none": 0, "plugin": 75}},
	} {
		f := &Fit{Devices: c.devices, Selectors: cel.NewCache(1, cel.Features{}),
			Strategy: Strategy{Resources: []Resource{{gpu, 1}}, Rate: c.rate}}
		if got := schedulertest.Scores(f, schedulertest.Pod("p", "example.com/gpu=1", nil), s); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
