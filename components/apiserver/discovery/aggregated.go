package discovery

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// aggregated tells everything about the core group, or about all others, in one document.
func (c *content) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	for _, g := range c.byPriority {
		if (g.name == "") != core {
			continue
		}
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.told {
			if described := v.describe(g.name); described != nil {
				item.Versions = append(item.Versions, *described)
			}
		}
		if len(item.Versions) > 0 {
			list.Items = append(list.Items, item)
		}
	}
	return list
}

// describe returns the resources of a version, nil if they are unknown.
func (v *groupVersion) describe(group string) *apidiscoveryv2.APIVersionDiscovery {
	if v.elsewhere != nil || len(v.kinds) == 0 {
		return v.elsewhere
	}
	gv := schema.GroupVersion{Group: group, Version: v.name}
	out := &apidiscoveryv2.APIVersionDiscovery{Version: v.name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, kind := range v.kinds {
		out.Resources = append(out.Resources, resourceOf(kind, gv))
	}
	return out
}

func resourceOf(kind *api.Kind, gv schema.GroupVersion) apidiscoveryv2.APIResourceDiscovery {
	scope := apidiscoveryv2.ScopeCluster
	if kind.Namespaced {
		scope = apidiscoveryv2.ScopeNamespace
	}
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource: kind.Resource, SingularResource: kind.Singular, Scope: scope, Verbs: verbs(kind),
		ResponseKind: responseKind(kind, gv.WithKind(kind.Name), gv), ShortNames: kind.ShortNames,
		Categories: kind.Categories,
	}
	subresources := kind.SubresourcesIn(gv)
	for i := range subresources {
		sub := &subresources[i]
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: sub.Name, Verbs: sub.Verbs, ResponseKind: responseKind(kind, bodyOf(kind, sub, gv), gv),
		})
	}
	if kind.Custom == nil {
		slices.SortFunc(r.Subresources, func(a, b apidiscoveryv2.APISubresourceDiscovery) int {
			return strings.Compare(a.Subresource, b.Subresource)
		})
	}
	return r
}

// responseKind leaves out a group version that is that of the document, as upstream does but for custom resources;
// clients fill it in.
func responseKind(of *api.Kind, kind schema.GroupVersionKind, gv schema.GroupVersion) *metav1.GroupVersionKind {
	if of.Custom == nil && kind.GroupVersion() == gv {
		return &metav1.GroupVersionKind{Kind: kind.Kind}
	}
	return &metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
}

// etag is a strong one, over the content alone. It is upstream's, as clients may come from one of its servers to one of
// these.
func etag(items []apidiscoveryv2.APIGroupDiscovery) (string, error) {
	body, err := json.Marshal(apidiscoveryv2.APIGroupDiscoveryList{Items: items})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`"%X"`, sha512.Sum512(body)), nil
}
