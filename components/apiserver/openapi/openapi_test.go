package openapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/util/proto/validation"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func serve(t *testing.T) *httptest.Server {
	s := New("v1.36.0", Form{})
	s.Set(kinds.Table(api.Deps{}), nil)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// index returns the addresses of all documents of v3.
func index(t *testing.T, server *httptest.Server) map[string]string {
	t.Helper()
	_, body := get(t, server.URL+"/openapi/v3")
	var doc struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(body, &doc); err != nil || len(doc.Paths) == 0 {
		t.Fatalf("index %s: %v", body, err)
	}
	out := map[string]string{}
	for path, p := range doc.Paths {
		out[path] = server.URL + p.ServerRelativeURL
	}
	return out
}

var reference = regexp.MustCompile(`"#/components/schemas/([^"]+)"`)

// TestEveryDocument looks for references that lead nowhere, and reads each document as protobuf.
func TestEveryDocument(t *testing.T) {
	server := serve(t)
	for path, url := range index(t, server) {
		resp, body := get(t, url)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", path, resp.Status, body)
			continue
		}
		var doc struct {
			Components struct{ Schemas map[string]any }
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		for _, ref := range reference.FindAllSubmatch(body, -1) {
			if doc.Components.Schemas[string(ref[1])] == nil {
				t.Errorf("%s: there is no %s", path, ref[1])
			}
		}
	}
	url := index(t, server)["apis/apps/v1"]
	resp, body := get(t, url, "Accept", v3Types.alias)
	var parsed openapiv3.Document
	if err := proto.Unmarshal(body, &parsed); err != nil || len(parsed.Paths.Path) == 0 {
		t.Errorf("protobuf v3 (%s): %v", resp.Header.Get("Content-Type"), err)
	}
}

// TestKubectl asks as kubectl does: for schemas to validate and patch by, and whether the server validates fields.
func TestKubectl(t *testing.T) {
	server := serve(t)
	client := discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: server.URL})

	root := openapi3.NewRoot(client.OpenAPIV3())
	doc, err := root.GVSpec(appsv1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	containers := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["containers"]
	if containers.Extensions["x-kubernetes-patch-merge-key"] != "name" ||
		containers.Extensions["x-kubernetes-list-type"] != "map" {
		t.Errorf("containers: %v", containers.Extensions)
	}
	patch := doc.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].Patch
	found := false
	for _, p := range patch.Parameters {
		found = found || p.Name == "fieldValidation"
	}
	if !found {
		t.Error("PATCH has no fieldValidation")
	}

	// made first by who has time: the client waits for 32 s at most
	get(t, server.URL+"/openapi/v2", "Accept", v2Types.alias)
	v2, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	resources, err := kubectlopenapi.NewOpenAPIData(v2)
	if err != nil {
		t.Fatal(err)
	}
	pod := resources.LookupResource(corev1.SchemeGroupVersion.WithKind("Pod"))
	if pod == nil {
		t.Fatal("v2 has no Pod")
	}
	if errs := validation.ValidateModel(map[string]any{"spec": map[string]any{"nonsense": 1}}, pod,
		"Pod"); len(errs) == 0 {
		t.Error("a pod with an unknown field is valid")
	}
	if resources.LookupResource(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}) == nil {
		t.Error("v2 has no Deployment")
	}
}

func TestV2JSON(t *testing.T) {
	server := serve(t)
	_, body := get(t, server.URL+"/openapi/v2")
	if _, err := openapiv2.ParseDocument(body); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), "#/components/") {
		t.Error("a reference of v3 is in v2")
	}
}

func TestHashes(t *testing.T) {
	server := serve(t)
	url := index(t, server)["api/v1"]
	resp, _ := get(t, url)
	if !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("with its hash: %v", resp.Header)
	}
	if resp, _ := get(t, url, "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("with its ETag: %s", resp.Status)
	}
	old := url[:strings.Index(url, "=")] + "=OLD"
	if resp, _ := get(t, old); resp.StatusCode != http.StatusMovedPermanently ||
		!strings.HasSuffix(url, resp.Header.Get("Location")) {
		t.Errorf("with an old hash: %s to %s", resp.Status, resp.Header.Get("Location"))
	}
	if resp, _ := get(t, server.URL+"/openapi/v3/apis/none/v1"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("unknown: %s", resp.Status)
	}
	if resp, _ := get(t, server.URL+"/openapi/v2", "Accept", "text/html"); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("text/html: %s", resp.Status)
	}
}

// TestHashesDontTellTheOrder: custom resources come in the order in which they were defined, and what is told of them
// is the same.
func TestHashesDontTellTheOrder(t *testing.T) {
	etags := func(table []*api.Kind) map[string]string {
		s := New("v1.36.0", Form{})
		s.Set(table, nil)
		server := httptest.NewServer(s)
		defer server.Close()
		resp, _ := get(t, server.URL+"/openapi/v2")
		out := map[string]string{"v2": resp.Header.Get("ETag")}
		for path, url := range index(t, server) {
			_, out[path], _ = strings.Cut(url, "?")
		}
		return out
	}
	table := kinds.Table(api.Deps{})
	want := etags(table)
	slices.Reverse(table)
	if got := etags(table); !maps.Equal(got, want) {
		t.Errorf("%v, the other way round %v", want, got)
	}
}

// TestHeaders are upstream's: documents of v3 come as they are, the one of v2 compressed; parts may be asked for.
func TestHeaders(t *testing.T) {
	server := serve(t)
	v3, old := index(t, server)["apis/apps/v1"], server.URL+"/openapi/v3/apis/apps/v1?hash=OLD"
	for name, c := range map[string]struct {
		url, header, value, vary, encoding, contentType string
		code                                            int
	}{
		"v2": {server.URL + "/openapi/v2", "Accept-Encoding", "gzip", "Accept-Encoding, Accept", "gzip",
			"application/json", 200},
		"v2 plain": {server.URL + "/openapi/v2", "Accept-Encoding", "identity", "Accept-Encoding, Accept", "",
			"application/json", 200},
		"part of v2": {server.URL + "/openapi/v2", "Range", "bytes=0-10", "Accept-Encoding, Accept", "",
			"application/json", 206},
		"v3":             {v3, "Accept-Encoding", "gzip", "Accept", "", "application/json", 200},
		"v3 as protobuf": {v3, "Accept", v3Types.alias, "Accept", "", v3Types.proto, 200},
		"by preference": {v3, "Accept", v3Types.alias + ";q=0.5, application/json", "Accept", "", "application/json",
			200},
		"no media type": {v3, "Accept", "x", "Accept", "", "", 200},
		"old":           {old, "Accept", "*/*", "Accept", "", "application/json", 301},
		"old, as HTML":  {old, "Accept", "text/html", "Accept", "", "", 406},
		"index":         {server.URL + "/openapi/v3", "Range", "bytes=0-1", "", "", "text/plain; charset=utf-8", 206},
	} {
		resp, _ := get(t, c.url, c.header, c.value)
		h := resp.Header
		if resp.StatusCode != c.code || strings.Join(h["Vary"], ", ") != c.vary ||
			h.Get("Content-Encoding") != c.encoding || h.Get("Content-Type") != c.contentType {
			t.Errorf("%s: %s, %v", name, resp.Status, h)
		}
		if modified := h.Get("Last-Modified") != ""; modified != (c.code < 300 && c.contentType != "") {
			t.Errorf("%s: Last-Modified: %v", name, h)
		}
	}
}
