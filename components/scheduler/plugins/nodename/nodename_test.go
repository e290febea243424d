package nodename

import (
	"reflect"
	"testing"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

func TestFilter(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", ""), schedulertest.Node("b", ""))
	cases := map[string]map[string]string{
		"":       {},
		"node=a": {"b": "!node(s) didn't match the requested node name"},
	}
	for spec, want := range cases {
		if got := schedulertest.Check(Plugin{}, schedulertest.Pod("p", spec, nil), s); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", spec, got, want)
		}
	}
}
