package kinds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// formerCase is an object stored in a version that is no longer served, and the object that upstream reads from it.
type formerCase struct {
	Stored unstructured.Unstructured `json:"stored"`
	Read   unstructured.Unstructured `json:"read"`
}

func formerCases(t *testing.T) []formerCase {
	t.Helper()
	files, err := filepath.Glob("testdata/former/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []formerCase
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			var c formerCase
			if err := yaml.UnmarshalStrict([]byte(doc), &c); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			out = append(out, c)
		}
	}
	return out
}

// TestFormerVersionsAreRead as JSON and as protobuf, with the defaults that they have; and are written in the version
// for that.
func TestFormerVersionsAreRead(t *testing.T) {
	left := map[string]*api.Kind{}
	for _, k := range kinds.Table(api.Deps{}) {
		for i := range k.RemovedVersions {
			left[k.RemovedVersions[i].WithKind(k.Name).String()] = k
		}
	}
	kindOf := map[string]*api.Kind{}
	for name, k := range left {
		kindOf[name] = k
	}
	for _, c := range formerCases(t) {
		gvk := c.Stored.GroupVersionKind()
		delete(left, gvk.String())
		t.Run(gvk.String()+" "+c.Stored.GetName(), func(t *testing.T) {
			k := kindOf[gvk.String()]
			if k == nil || k.Version(gvk.GroupVersion()) != nil {
				t.Fatal("it is no former version")
			}
			storage := codec.NewStorage(k, runtime.ContentTypeProtobuf)
			for _, value := range lying(t, k.Readable(gvk.GroupVersion()), k.Name, c.Stored) {
				obj, err := storage.Decode(value)
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				var got map[string]any
				if err := json.Unmarshal(text, &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(plain(t, c.Read.Object), got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				rewritten(t, k, storage, obj)
			}
		})
	}
	for name := range left {
		t.Errorf("testdata/former has no %s", name)
	}
}

// lying are the forms in which an object may lie in the store.
func lying(t *testing.T, v *api.Version, kind string, content unstructured.Unstructured) [][]byte {
	t.Helper()
	text, err := content.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	obj := v.New()
	if err := json.Unmarshal(text, obj); err != nil {
		t.Fatal(err)
	}
	var message bytes.Buffer
	if err := codec.NewCodec(codec.NewScheme()).Encode(&message, obj, v.WithKind(kind), codec.Protobuf); err != nil {
		t.Fatal(err)
	}
	return [][]byte{text, message.Bytes()}
}

// rewritten checks that an object is written in the version in which its kind lies in the store, and read from there as
// it was, with what the hub alone has by default.
func rewritten(t *testing.T, k *api.Kind, storage *codec.Storage, obj api.Object) {
	t.Helper()
	value, err := storage.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	as := k.StoredAs()
	if codec.IsEnvelope(value) {
		if as, _, err = codec.OpenEnvelope(value); err != nil {
			t.Fatal(err)
		}
	} else if !k.StoredAsJSON {
		t.Errorf("%q is no protobuf", value)
	}
	if as != k.StoredAs() {
		t.Errorf("written as %s", as)
	}
	again, err := storage.Decode(value)
	if err != nil {
		t.Fatal(err)
	}
	k.Reread(obj, false)
	sameObjects(t, "what was written anew", obj, again)
}

// plain is content with the numbers that JSON has.
func plain(t *testing.T, content map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
