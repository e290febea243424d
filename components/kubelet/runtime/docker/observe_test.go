package docker

import (
	"maps"
	"slices"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Containers that others removed are not remembered for ever; those found while the engine was asked are kept.
func TestRemovedContainersAreForgotten(t *testing.T) {
	e := &Engine{inspected: map[string]runtime.Container{"there": {}, "removed": {}, "meanwhile": {}}}
	e.forgetRemoved([]string{"there", "removed"}, []runtime.Pod{{Containers: []runtime.Container{{ID: "there"}}}})
	if left := slices.Sorted(maps.Keys(e.inspected)); !slices.Equal(left, []string{"meanwhile", "there"}) {
		t.Errorf("left: %v", left)
	}
}

func TestSignalName(t *testing.T) {
	for text, want := range map[string]string{"": "SIGTERM", "SIGUSR1": "SIGUSR1", "quit": "SIGQUIT", "9": "SIGKILL",
		"RTMIN+3": "SIGRTMIN+3", "999": ""} {
		if got := signalName(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
