package volumezone

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"

	. "quintet.dev/quintet/components/scheduler/schedulertest"
)

func TestFilter(t *testing.T) {
	const refused = "!node(s) had no available volume zone"
	for name, c := range map[string]struct {
		labels map[string]string
		want   map[string]string
	}{
		"no label":    {},
		"zone":        {map[string]string{v1.LabelTopologyZone: "a"}, map[string]string{"b": refused}},
		"two zones":   {map[string]string{v1.LabelTopologyZone: "a__b"}, nil},
		"older name":  {map[string]string{v1.LabelFailureDomainBetaZone: "b"}, map[string]string{"a": refused}},
		"region":      {map[string]string{v1.LabelTopologyRegion: "r"}, map[string]string{"a": refused, "b": refused}},
		"other label": {map[string]string{"team": "red"}, nil},
	} {
		pv := Volume("pv", "c", "1Gi", "")
		pv.Labels = c.labels
		s := Snapshot(Node("a", v1.LabelTopologyZone+"=a"), Node("b", v1.LabelTopologyZone+"=b"), Node("nowhere", ""), pv,
			Claim("x", "c", "1Gi", Bound("pv")))
		if got := Check(Plugin{}, Pod("p", "", Using("x")), s); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
