package apiserver_test

import (
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestSelectionWhileNobodyConverts: a selector can't be evaluated on an object that can't be converted to the request's
// version, so a watch ends, rather than report an existing object as deleted.
func TestSelectionWhileNobodyConverts(t *testing.T) {
	f := startDynamic(t)
	var broken atomic.Bool
	crd := convertedDefinition(converting(t, &broken))
	crd.Spec.Versions[1].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.length"}}
	f.define(t, crd)
	f.create(t, "a", `spec: {size: 3}`)
	newer := widgets
	newer.Version = "v2"
	w, err := f.dynamic.Resource(newer).Namespace("default").Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "spec.length=3"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatalf("got %v", e)
	}
	broken.Store(true)
	a, err := f.widgets().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.SetLabels(map[string]string{"changed": "yes"})
	if _, err := f.widgets().Update(t.Context(), a, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("the watch goes on: %v", e)
	}
}
