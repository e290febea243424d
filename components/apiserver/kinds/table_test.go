package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func TestTableIsSane(t *testing.T) {
	resources, prefixes := sets.New[string](), sets.New[string]()
	for _, k := range kinds.Table(api.Deps{}) {
		t.Run(k.Resource+"."+k.Hub.Group, func(t *testing.T) {
			hub := k.HubVersion()
			if hub == nil {
				t.Fatalf("hub %s is not among the versions", k.Hub)
			}
			if hub.ToHub != nil || hub.FromHub != nil {
				t.Error("the hub has conversions")
			}
			for _, v := range k.Versions {
				gr := v.String() + "/" + k.Resource
				if resources.Has(gr) {
					t.Errorf("%s is served twice", gr)
				}
				resources.Insert(gr)
				if v.New() == v.New() {
					t.Errorf("%s: New returns the same object twice", gr)
				}
				if v.GroupVersion != k.Hub && (v.ToHub == nil || v.FromHub == nil) {
					t.Errorf("%s: no conversion", gr)
				}
			}
			if k.Name == "" || k.Resource != strings.ToLower(k.Resource) || k.Singular != strings.ToLower(k.Name) {
				t.Errorf("bad names: %q %q %q", k.Name, k.Resource, k.Singular)
			}
			if !slices.IsSorted(k.Verbs) {
				t.Errorf("verbs are not in discovery's order: %v", k.Verbs)
			}
			if !k.Virtual() {
				if prefixes.Has(k.Prefix) {
					t.Errorf("prefix %s is used twice", k.Prefix)
				}
				prefixes.Insert(k.Prefix)
			}
			var row []any
			if k.Row != nil {
				row = k.Row(hub.New())
			}
			if len(row) != cellCount(k) {
				t.Errorf("%d cells for %d columns", len(row), len(k.Columns))
			}
			for _, c := range k.Columns {
				// as upstream's
				if c.Description == "" && k.Resource != "runtimeclasses" && k.Resource != "leasecandidates" {
					t.Errorf("column %s has no description", c.Name)
				}
			}
			for _, name := range k.Indexed {
				if _, ok := k.Fields[name]; !ok && name != "metadata.name" {
					t.Errorf("%s is indexed and no field", name)
				}
			}
			k.FieldSet(hub.New())
			for _, s := range k.Subresources {
				if len(s.Verbs) == 0 || !slices.IsSorted(s.Verbs) {
					t.Errorf("subresource %s: verbs %v", s.Name, s.Verbs)
				}
			}
		})
	}
}

func TestDeprecationWarnings(t *testing.T) {
	got := map[string]string{}
	for _, k := range kinds.Table(api.Deps{}) {
		for _, v := range k.Versions {
			if v.DeprecationWarning != "" {
				got[v.String()+" "+k.Resource] = v.DeprecationWarning
			}
		}
	}
	const want = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
	if got["v1 endpoints"] != want {
		t.Errorf("got %q", got)
	}
	for _, resource := range []string{"v1 pods", "apps/v1 deployments"} {
		if got[resource] != "" {
			t.Errorf("%s: %q", resource, got[resource])
		}
	}
}

// cellCount is the number of cells in the rows of a kind. One has more than columns, as upstream's.
func cellCount(k *api.Kind) int {
	if k.Resource == "ipaddresses" {
		return len(k.Columns) + 1
	}
	return len(k.Columns)
}
