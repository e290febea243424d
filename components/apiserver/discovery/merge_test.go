package discovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// TestMerge compares with upstream's servers, of which clients may ask any.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 20))
	for range 2000 {
		own := describe(random)
		peers := map[string][]apidiscoveryv2.APIGroupDiscovery{}
		for i := range random.IntN(4) {
			peers[fmt.Sprint(i*2)] = describe(random)
		}
		want := aggregated.TestMergeResources("3", own, peers)
		got := merge("3", own, peers)
		if !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("of %+v and %+v\nis made   %+v\nupstream: %+v", own, peers, got, want)
		}
	}
}

// describe makes up what a server may serve.
func describe(random *rand.Rand) []apidiscoveryv2.APIGroupDiscovery {
	some := func(names ...string) []string {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if random.IntN(2) == 0 {
			slices.Sort(names)
		}
		return names[:random.IntN(len(names)+1)]
	}
	var out []apidiscoveryv2.APIGroupDiscovery
	for _, name := range some("apps", "batch", "policy") {
		group := apidiscoveryv2.APIGroupDiscovery{}
		group.Name = name
		for _, version := range some("v1", "v1beta1", "v2") {
			v := apidiscoveryv2.APIVersionDiscovery{Version: version,
				Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			for _, resource := range some("jobs", "pods", "sets") {
				r := apidiscoveryv2.APIResourceDiscovery{Resource: resource, Verbs: some("get", "list", "watch")}
				for _, sub := range some("scale", "status") {
					r.Subresources = append(r.Subresources,
						apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, Verbs: some("get", "patch")})
				}
				v.Resources = append(v.Resources, r)
			}
			group.Versions = append(group.Versions, v)
		}
		out = append(out, group)
	}
	return out
}
