package aggregation

import (
	"net/http"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
)

// TestTellsWhatItServesThoughItIsNotAvailable: discovery shows what a server describes, whether it is available or not.
func TestTellsWhatItServesThoughItIsNotAvailable(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := start(t, server)
	f.untilServed(t)
	server.SickenBut(http.StatusInternalServerError, "/apis")
	f.untilReason(t, "FailedDiscoveryCheck")
	server.Rename("beasts")
	f.until(t, "is told of", func() bool { return f.described() == "Current beasts[status]" })
	f.until(t, "is not asked", func() bool { return f.ask(t, get(things)).Code == http.StatusServiceUnavailable })
}

func TestResourcesOfOthersHaveKinds(t *testing.T) {
	r := &remote{name: "v1.zoo.example.com",
		spec: &apiregistrationv1.APIServiceSpec{Group: "zoo.example.com", Version: "v1"}}
	got, err := r.readAggregated(&answer{code: http.StatusOK,
		body: []byte(`{"items":[{"metadata":{"name":"zoo.example.com"},"versions":[{"version":"v1",
		"resources":[{"resource":"things","subresources":[{"subresource":"status"},{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}}]}]}]}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got.version.Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent {
		t.Errorf("freshness %q", got.version.Freshness)
	}
	things := got.version.Resources[0]
	for what, kind := range map[string]*metav1.GroupVersionKind{"things": things.ResponseKind,
		"things/status": things.Subresources[0].ResponseKind} {
		if kind == nil || *kind != (metav1.GroupVersionKind{}) {
			t.Errorf("kind of %s: %v, want an empty one", what, kind)
		}
	}
	if kind := things.Subresources[1].ResponseKind; kind == nil || kind.Kind != "Scale" {
		t.Errorf("kind of things/scale: %v", kind)
	}
}
