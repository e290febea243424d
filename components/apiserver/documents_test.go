package apiserver_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// told is what a server documents: the ETag of each document, and what stands for its content.
func (f *fixture) told(t *testing.T) map[string]string {
	t.Helper()
	config := f.as("admin")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, accepts := range map[string][]string{
		"/openapi/v2": {"application/json",
			"application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		"/openapi/v3": {"application/json"},
		"/openapi/v3/apis/example.com/v1": {"application/json",
			"application/com.github.proto-openapi.spec.v3@v1.0+protobuf"},
		"/openapi/v3/apis/example.org/v1": {"application/json"},
		"/apis": {"application/json",
			"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
		"/apis/example.com/v1": {"application/json"},
	} {
		for _, accept := range accepts {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", accept)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			out[path+" "+accept] = fmt.Sprintf("%d %s %x", response.StatusCode, response.Header.Get("ETag"),
				sha256.Sum256(body))
		}
	}
	return out
}

// TestServersTellTheSame: what documents say, and the hashes that stand for it, are the same at two servers with the
// same definitions, whatever the order in which these were made, and at one that comes back.
func TestServersTellTheSame(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	shared := func(c *options.Config) { c.Store = store }
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for i, name := range []string{"widget", "gadget", "apple", "zebra"} {
		crd := widgetDefinition(t)
		crd.Spec.Group = []string{"example.com", "example.org"}[i/3]
		crd.Name = name + "s." + crd.Spec.Group
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: name + "s", Kind: name}
		definitions = append(definitions, crd)
	}
	first, other := startDynamic(t, shared), startDynamic(t)
	for _, crd := range definitions {
		first.define(t, crd.DeepCopy())
	}
	for _, crd := range slices.Backward(definitions) {
		other.define(t, crd)
	}
	// What is defined is shown a little later.
	var want, got map[string]string
	defer func() {
		for document := range want {
			if got[document] != want[document] {
				t.Logf("%s: %s, at the first server %s", document, got[document], want[document])
			}
		}
	}()
	eventually(t, "documents of both servers", func() bool {
		want, got = first.told(t), other.told(t)
		return maps.Equal(want, got)
	})
	first.stop()
	again := start(t, shared)
	eventually(t, "the documents of before", func() bool { got = again.told(t); return maps.Equal(want, got) })
}
