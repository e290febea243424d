package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

const gadgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const objects = `# a comment only
---
apiVersion: example.org/v1
kind: Gadget
metadata: {name: g, namespace: shop}
spec: {size: 3}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: v}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
`

// TestManifests: objects are there, in whatever order the files have them, and ready.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "z.yaml"), []byte(gadgets), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("no object"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, client := started(t, WithManifestContent([]byte(objects)), WithCRDs(dir), WaitForManifests())
	dynamicClient, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	gadget := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}
	got, err := dynamicClient.Resource(gadget).Namespace("shop").Get(t.Context(), "g", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if fields := got.GetManagedFields(); len(fields) != 1 || fields[0].Manager != "quintet" ||
		fields[0].Operation != "Apply" {
		t.Errorf("managed fields %v", fields)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "c", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	web, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || web.Status.ReadyReplicas != 2 {
		t.Errorf("the Deployment was not waited for: %+v, %v", web.Status, err)
	}
}

func TestBadManifests(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string][]Option{
		"CRDs: Pod p is none; WithManifests takes all kinds": {WithCRDs(file)},
		"manifests: stat /no/such/file":                      {WithManifests("/no/such/file")},
		"manifests: content 1:3: document 2: an object needs apiVersion": {WithManifestContent([]byte("{apiVersion: v1, " +
			"kind: Pod, metadata: {name: a}}\n---\nkind: Pod\n"))},
		"manifests: content 1: no object in it":             {WithManifestContent([]byte("# nothing\n"))},
		"manifests: content 1:1: document 1: not YAML: map": {WithManifestContent([]byte("a: b: c"))},
		"wait for manifests: there are none":                {WaitForManifests()},
	} {
		c := newConfig("x")
		err := apply(c, []setting{{"", opts[0]}})
		if err == nil {
			err = c.check()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestMergedKubeconfig: a cluster's context is there while the cluster is.
func TestMergedKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	c, err := Start(t.Context(), InProcess(), WithName("merged"), WithNodes(0), WithKubeconfigMerged(""))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(file)
	if err != nil || config.CurrentContext != "quintet-merged" ||
		config.Clusters["quintet-merged"].Server != c.RESTConfig().Host {
		t.Errorf("%+v, %v", config, err)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file that was made is still there: %v", err)
	}
}
