package cache

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestAllIn: versions are counted as objects come, change, go, and are listed again.
func TestAllIn(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	set, err := NewSet(Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"},
		schema.GroupVersion{Group: "example.com", Version: "v2"}
	c := set.Unstored(&api.Kind{Name: "Widget", Resource: "widgets", Prefix: "example.com/widgets", Hub: v1,
		Custom: &api.Custom{}})
	entry := func(key string, v schema.GroupVersion) *Entry {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(v.WithKind("Widget"))
		return &Entry{Key: key, Object: u}
	}
	put := func(e *Entry) { c.state.objects.put(e) }
	holds := func(when string, inV1, inV2 bool) {
		t.Helper()
		if c.AllIn(v1) != inV1 || c.AllIn(v2) != inV2 {
			t.Errorf("%s: all in v1 %t, in v2 %t", when, c.AllIn(v1), c.AllIn(v2))
		}
	}
	holds("without objects", true, true)
	put(entry("a", v1))
	put(entry("b", v1))
	holds("two of v1", true, false)
	put(entry("a", v2))
	holds("one of each", false, false)
	put(entry("b", v2))
	holds("two of v2", false, true)
	c.state.install([]*Entry{entry("a", v1)}, 7)
	holds("listed anew", true, false)
}
