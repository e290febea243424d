package openapi

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOptionsAreKnownEverywhere, in as many versions as upstream tells of.
func TestOptionsAreKnownEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		got  []schema.GroupVersion
		want int
	}{"client": {clientVersions(), 53}, "server": {serverVersions(), 60}} {
		if len(c.got) != c.want || c.got[0] != (schema.GroupVersion{Version: "v1"}) {
			t.Errorf("%s: %d: %v", name, len(c.got), c.got)
		}
	}
	if from, all := clientVersions(), serverVersions(); slices.ContainsFunc(from,
		func(v schema.GroupVersion) bool { return !slices.Contains(all, v) }) {
		t.Errorf("clients know more: %v, %v", from, all)
	}
	schemas := map[string]json.RawMessage{deleteOptions: json.RawMessage(`{"type":"object"}`),
		statusModel: json.RawMessage(`{}`)}
	if err := knownIn(schemas, []schema.GroupVersion{{Group: "apps", Version: "v1"}}); err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"object","x-kubernetes-group-version-kind":[{"group":"apps","kind":"DeleteOptions","version":"v1"}]}`
	if got := string(schemas[deleteOptions]); got != want || string(schemas[statusModel]) != `{}` {
		t.Errorf("got %s, %s", got, schemas[statusModel])
	}
}

// TestModelsAreOfOneVersion: what is taken in another version, too (evictions of older clients), doesn't say so.
func TestModelsAreOfOneVersion(t *testing.T) {
	all, err := load("io.k8s.api.policy.v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []json.RawMessage{all["io.k8s.api.policy.v1.Eviction"].V2,
		all["io.k8s.api.policy.v1.Eviction"].V3} {
		var got struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		want := []schema.GroupVersionKind{{Group: "policy", Version: "v1", Kind: "Eviction"}}
		if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got.Kinds, want) {
			t.Errorf("%v, %v", got.Kinds, err)
		}
	}
}
