package options

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestWantedAPIs: the more exactly a setting names something, the more it counts.
func TestWantedAPIs(t *testing.T) {
	type settings map[string]string
	for _, test := range []struct {
		settings settings
		api      string
		want     bool
	}{
		{nil, "resource.k8s.io/v1", true},
		{nil, "resource.k8s.io/v1beta1", false},
		{settings{"api/all": "true"}, "resource.k8s.io/v1alpha3", true},
		{settings{"api/beta": "true"}, "resource.k8s.io/v1beta1", true},
		{settings{"api/beta": "true"}, "resource.k8s.io/v1alpha3", false},
		{settings{"api/all": "true", "api/beta": "false"}, "resource.k8s.io/v1beta1", false},
		{settings{"api/beta": "false", "resource.k8s.io/v1beta1": ""}, "resource.k8s.io/v1beta1", true},
		{settings{"api/all": "true", "resource.k8s.io/v1beta1": "false"}, "resource.k8s.io/v1beta1", false},
		{settings{"resource.k8s.io/v1beta1": "true"}, "resource.k8s.io/v1beta2", false},
		{settings{"resource.k8s.io/v1beta1": "true", "resource.k8s.io/v1beta1/resourceclaims": "0"},
			"resource.k8s.io/v1beta1", false},
		{settings{"resource.k8s.io/v1beta1/resourceclaims": "1"}, "resource.k8s.io/v1beta1", true},
		{settings{"resource.k8s.io/v1beta1/deviceclasses": "1"}, "resource.k8s.io/v1beta1", false},
	} {
		gv, err := schema.ParseGroupVersion(test.api)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Config{RuntimeConfig: test.settings}).ServesAPI(gv, "resourceclaims"); got != test.want {
			t.Errorf("%v: %s: %v", test.settings, test.api, got)
		}
	}
}

// TestLackingAPIs: what is told to be missing is what the table doesn't have, or has behind a gate that is off.
func TestLackingAPIs(t *testing.T) {
	all := func(schema.GroupVersionResource) bool { return true }
	off, err := gates.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	on, err := gates.New(map[string]bool{"StorageVersionMigrator": true})
	if err != nil {
		t.Fatal(err)
	}
	const migrations = "storagemigration.k8s.io/v1beta1/storageversionmigrations (feature gate StorageVersionMigrator)"
	if got := (&apiCheck{gates: off}).lacks(all); !slices.Contains(got, migrations) {
		t.Errorf("%q", got)
	}
	if got := (&apiCheck{gates: on}).lacks(all); slices.Contains(got, migrations) {
		t.Errorf("%q", got)
	}
	for _, r := range unbuilt {
		for _, kind := range kinds.Table(api.Deps{}) {
			if kind.Resource == r.Resource && kind.Version(r.GroupVersion()) != nil {
				t.Errorf("%s is in the table", r)
			}
		}
	}
}
