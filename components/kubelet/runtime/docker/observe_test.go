package docker

import (
	"maps"
	"slices"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Containers that others removed are not remembered for ever; those found while the engine was asked are kept.
func TestRemovedContainersAreForgotten(t *testing.T) {
	e := &Engine{finished: map[string]runtime.Container{"there": {}, "removed": {}, "meanwhile": {}}}
	e.forgetRemoved([]string{"there", "removed"}, []runtime.Pod{{Containers: []runtime.Container{{ID: "there"}}}})
	if left := slices.Sorted(maps.Keys(e.finished)); !slices.Equal(left, []string{"meanwhile", "there"}) {
		t.Errorf("left: %v", left)
	}
}
