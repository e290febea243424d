package kinds

import (
	"reflect"
	"slices"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// TestTwinsAreAlike: objects of versions that are said to be laid out as the hub's are taken for such as they lie in
// memory.
func TestTwinsAreAlike(t *testing.T) {
	found := 0
	for _, kind := range Table(api.Deps{}) {
		for _, v := range slices.Concat(kind.Versions, kind.RemovedVersions) {
			if !v.Twin {
				continue
			}
			found++
			if !twin.Alike(reflect.TypeOf(v.New()), reflect.TypeOf(kind.HubVersion().New())) {
				t.Errorf("%s of %s is laid out otherwise", kind.Name, v)
			}
		}
	}
	if found == 0 {
		t.Error("there are no twins")
	}
}
