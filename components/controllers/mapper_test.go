package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMapperFindsWhatCameLater(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}},
	}}}
	m := newMapper(served, clock)
	widgets := schema.GroupVersionResource{Group: "example.com", Resource: "widgets"}
	if got, err := m.ResourceFor(widgets); err == nil {
		t.Fatalf("found %v", got)
	}
	served.Resources = append(served.Resources, &metav1.APIResourceList{
		GroupVersion: "example.com/v1",
		APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}},
	})
	asked := len(served.Actions())
	if got, err := m.ResourceFor(widgets); err == nil || len(served.Actions()) != asked {
		t.Errorf("asked again at once, and got %v", got)
	}
	clock.Step(renewEvery)
	if got, err := m.ResourceFor(widgets); err != nil || got.Version != "v1" {
		t.Errorf("resource %v, %v", got, err)
	}
	if got, err := m.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"}); err != nil ||
		got.Resource.Resource != "widgets" {
		t.Errorf("mapping %v, %v", got, err)
	}
	if got, err := m.ResourceFor(schema.GroupVersionResource{Resource: "pods"}); err != nil || got.Version != "v1" {
		t.Errorf("resource %v, %v", got, err)
	}
}
