package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// golden is a file below testdata/stored: a request that creates an object, and what upstream's server makes of it in
// etcd.
type golden struct {
	Path   string                    `json:"path"`
	Object unstructured.Unstructured `json:"object"`
	UID    string                    `json:"uid"`
	Time   metav1.Time               `json:"time"` // of the request
	Key    string                    `json:"key"`
	// What lies under Key: JSON, or else Binary.
	Value  string `json:"value"`
	Binary []byte `json:"binary"`
}

// stored is what lies under the key.
func (g *golden) stored() []byte {
	if g.Value != "" {
		return []byte(g.Value)
	}
	return g.Binary
}

// standIn puts uid and time of the golden file in the place of made's, in the value that made is stored as and in made
// itself. The times of the two are equally long.
func (g *golden) standIn(t *testing.T, made *unstructured.Unstructured, value []byte) ([]byte,
	*unstructured.Unstructured) {
	t.Helper()
	text, err := json.Marshal(made.Object)
	if err != nil {
		t.Fatal(err)
	}
	put := func(old, now []byte) {
		value, text = bytes.ReplaceAll(value, old, now), bytes.ReplaceAll(text, old, now)
	}
	put([]byte(made.GetUID()), []byte(g.UID))
	for _, from := range timesIn(t, made) {
		put([]byte(from.UTC().Format(time.RFC3339)), []byte(g.Time.UTC().Format(time.RFC3339)))
		old, err := from.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		now, err := g.Time.Marshal()
		if err != nil || len(now) != len(old) {
			t.Fatalf("%q for %q: %v", now, old, err)
		}
		value = bytes.ReplaceAll(value, old, now)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &out.Object); err != nil {
		t.Fatal(err)
	}
	return value, out
}

// timesIn are the times that the server has set: they may lie in different seconds.
func timesIn(t *testing.T, made *unstructured.Unstructured) []metav1.Time {
	t.Helper()
	out := []metav1.Time{made.GetCreationTimestamp()}
	for _, m := range made.GetManagedFields() {
		out = append(out, *m.Time)
	}
	if phase, ok, _ := unstructured.NestedString(made.Object, "status", "lastPhaseTransitionTime"); ok {
		at, err := time.Parse(time.RFC3339, phase)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, metav1.NewTime(at))
	}
	return out
}

// goldens reads all files, those first that others need.
func goldens(t testing.TB) []*golden {
	t.Helper()
	files, err := filepath.Glob("testdata/stored/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*golden, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = &golden{}
		if err := yaml.UnmarshalStrict(text, out[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	needed := []string{"CustomResourceDefinition", "ServiceAccount", "Namespace"}
	slices.SortStableFunc(out, func(a, b *golden) int {
		return slices.Index(needed, b.Object.GetKind()) - slices.Index(needed, a.Object.GetKind())
	})
	return out
}

// goldenClient sends what a golden file says, as the client that it was sent by.
type goldenClient struct {
	*http.Client
	host string
}

func newGoldenClient(t *testing.T, f *fixture) goldenClient {
	t.Helper()
	config := f.as("admin")
	config.UserAgent = "golden"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return goldenClient{client, config.Host}
}

func (c goldenClient) do(t *testing.T, method, path string, body []byte) (int, *unstructured.Unstructured) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &out.Object); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return response.StatusCode, out
}

// create makes the object, and returns it.
func (c goldenClient) create(t *testing.T, g *golden) *unstructured.Unstructured {
	t.Helper()
	body, err := json.Marshal(g.Object.Object)
	if err != nil {
		t.Fatal(err)
	}
	code, made := c.do(t, http.MethodPost, g.Path, body)
	if code != http.StatusCreated {
		t.Fatalf("%s: %d %v", g.Path, code, made.Object["message"])
	}
	return made
}

// asCreated is when the object was created, below key in the store: controllers may have changed it since.
func asCreated(t *testing.T, store storage.Store, key string, made *unstructured.Unstructured) []byte {
	t.Helper()
	revision, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	page, err := store.List(t.Context(), storage.Range{Prefix: key, Revision: revision})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%s: %v, %v", key, page.Items, err)
	}
	return page.Items[0].Value
}

// TestStoredForms holds the keys and bytes in etcd fast, so that this server and upstream's can open each other's data:
// each object is stored as upstream stores it, and is served, out of what upstream has stored, as it was when it was
// created.
func TestStoredForms(t *testing.T) {
	list := goldens(t)
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	f := start(t, func(c *options.Config) { c.Store = store; everything(c) })
	client := newGoldenClient(t, f)
	client.do(t, http.MethodPost, "/api/v1/namespaces", []byte(`{"metadata":{"name":"golden-quota"}}`))
	created := make([]*unstructured.Unstructured, len(list))
	for i, g := range list {
		made := client.create(t, g)
		var got []byte
		got, created[i] = g.standIn(t, made, asCreated(t, store, g.Key, made))
		if want := g.stored(); !bytes.Equal(got, want) {
			t.Errorf("%s is stored as\n%q, want\n%q (%s)", g.Key, got, want, base64.StdEncoding.EncodeToString(got))
		}
	}
	f.stop()

	other := memory.New(nil)
	t.Cleanup(func() { _ = other.Close() })
	for _, g := range list {
		if _, err := other.Create(t.Context(), g.Key, g.stored(), 0); err != nil {
			t.Fatal(err)
		}
	}
	client = newGoldenClient(t, start(t, func(c *options.Config) { c.Store = other; everything(c) }))
	for i, g := range list {
		code, got := client.do(t, http.MethodGet, g.Path+"/"+g.Object.GetName(), nil)
		want := created[i]
		for _, obj := range []*unstructured.Unstructured{got, want} {
			obj.SetResourceVersion("")
			// controllers write these
			if kind := obj.GetKind(); kind == "CustomResourceDefinition" || kind == "APIService" {
				obj.SetManagedFields(nil)
				delete(obj.Object, "status")
			}
		}
		if diff := cmp.Diff(want.Object, got.Object); code != http.StatusOK || diff != "" {
			t.Errorf("%s is served as %d %s", g.Key, code, diff)
		}
	}
}

// everything makes a server serve all that it can.
func everything(c *options.Config) {
	c.ServiceClusterIPRange = "10.96.0.0/16"
	c.RuntimeConfig = map[string]string{"api/all": "true"}
	c.FeatureGates = map[string]bool{"ClusterTrustBundle": true, "PodCertificateRequest": true,
		"StorageVersionMigrator": true}
}

// TestEveryKindHasAStoredForm: no kind is left out, in no version.
func TestEveryKindHasAStoredForm(t *testing.T) {
	have := map[string]bool{}
	for _, g := range goldens(t) {
		have[g.Object.GroupVersionKind().String()] = true
	}
	for _, k := range kinds.Table(api.Deps{}) {
		for _, v := range k.Versions {
			gvk := v.WithKind(k.Name).String()
			if !k.Virtual() && !v.Unserved && !have[gvk] {
				t.Errorf("testdata/stored has no %s", strings.TrimPrefix(gvk, "/"))
			}
		}
	}
}
