package peers

import (
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestHidden(t *testing.T) {
	h := hidden{now: map[string][]schema.GroupVersion{}, before: map[schema.GroupVersion]time.Time{}}
	zoo1, zoo2 := schema.GroupVersion{Group: "zoo", Version: "v1"}, schema.GroupVersion{Group: "zoo", Version: "v2"}
	begin := time.Unix(0, 0)
	if !h.set("crd", []schema.GroupVersion{zoo1, zoo2}, begin) ||
		h.set("crd", []schema.GroupVersion{zoo1, zoo2}, begin) {
		t.Error("what is news isn't told, or what isn't is")
	}
	if all, until := h.all(begin.Add(time.Hour)); !all[zoo1] || !all[zoo2] || !until.IsZero() {
		t.Errorf("asked for: %v until %v", all, until)
	}
	h.set("crd", []schema.GroupVersion{zoo2}, begin.Add(time.Hour))
	h.set("service", []schema.GroupVersion{zoo2}, begin.Add(time.Hour))
	h.set("crd", nil, begin.Add(time.Hour+time.Minute))
	if all, until := h.all(begin.Add(time.Hour + grace - time.Second)); !all[zoo1] || !all[zoo2] ||
		!until.Equal(begin.Add(time.Hour+grace)) {
		t.Errorf("within the grace: %v until %v", all, until)
	}
	if all, _ := h.all(begin.Add(2 * time.Hour)); all[zoo1] || !all[zoo2] {
		t.Errorf("later, when another object still asks for one: %v", all)
	}
}

func TestWithout(t *testing.T) {
	gv := func(version string) schema.GroupVersion { return schema.GroupVersion{Group: "zoo", Version: version} }
	group := apidiscoveryv2.APIGroupDiscovery{
		Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1"}, {Version: "v2"}}}
	group.Name = "zoo"
	all := view{"a": {
		resources: map[schema.GroupVersionResource]bool{gv("v1").WithResource("apes"): true,
			gv("v2").WithResource("apes"): true},
		groups: []apidiscoveryv2.APIGroupDiscovery{group},
	}}
	left := all.without(map[schema.GroupVersion]bool{gv("v1"): true})["a"]
	if len(left.resources) != 1 || !left.resources[gv("v2").WithResource("apes")] || len(left.groups) != 1 ||
		len(left.groups[0].Versions) != 1 {
		t.Errorf("without one version: %+v", left)
	}
	if none := all.without(map[schema.GroupVersion]bool{gv("v1"): true, gv("v2"): true})["a"]; len(none.groups) != 0 ||
		len(none.resources) != 0 {
		t.Errorf("without both: %+v", none)
	}
	if len(all["a"].groups[0].Versions) != 2 || len(all["a"].resources) != 2 {
		t.Errorf("what was left out has gone: %+v", all["a"])
	}
}
