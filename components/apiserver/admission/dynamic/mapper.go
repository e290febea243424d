package dynamic

import (
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/restmapper"
)

// NewMapper returns what finds the resources of kinds among those that are served at the moment, here or elsewhere.
func NewMapper(config *Config) meta.RESTMapper { return mapper{config} }

// mapper implements meta.RESTMapper as upstream's does, which is made of discovery: of the groups that are asked for
// only, as it costs less than to follow them all.
type mapper struct{ config *Config }

func (m mapper) all() meta.RESTMapper { return m.within(func(string) bool { return true }) }

func (m mapper) of(group string) meta.RESTMapper {
	return m.within(func(other string) bool { return other == group })
}

// within maps what some of the groups have.
func (m mapper) within(asked func(group string) bool) meta.RESTMapper {
	groups := groups{}
	for _, row := range m.config.Kinds() {
		for i := range row.Versions {
			if v := &row.Versions[i]; !v.Unserved && asked(v.Group) {
				groups.add(v.GroupVersion,
					metav1.APIResource{Name: row.Resource, SingularName: row.Singular, Kind: row.Name,
						Namespaced: row.Namespaced})
			}
		}
	}
	if m.config.Elsewhere == nil {
		return groups.mapper()
	}
	for gv, told := range m.config.Elsewhere() {
		if !asked(gv.Group) || told.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
			continue // clients don't take what is stale for resources that there are
		}
		for i := range told.Resources {
			if r := &told.Resources[i]; r.ResponseKind != nil && r.ResponseKind.Kind != "" {
				groups.add(gv, metav1.APIResource{
					Name: r.Resource, SingularName: r.SingularResource, Kind: r.ResponseKind.Kind,
					Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace,
				})
			}
		}
	}
	return groups.mapper()
}

// groups are the resources of group versions, by group and version.
type groups map[string]map[string][]metav1.APIResource

func (g groups) add(gv schema.GroupVersion, r metav1.APIResource) {
	if g[gv.Group] == nil {
		g[gv.Group] = map[string][]metav1.APIResource{}
	}
	g[gv.Group][gv.Version] = append(g[gv.Group][gv.Version], r)
}

func (g groups) mapper() meta.RESTMapper {
	var list []*restmapper.APIGroupResources
	for name, versions := range g {
		group := metav1.APIGroup{Name: name}
		for v := range versions {
			group.Versions = append(group.Versions,
				metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: name, Version: v}.String(),
					Version: v})
		}
		slices.SortFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		group.PreferredVersion = group.Versions[0]
		list = append(list, &restmapper.APIGroupResources{Group: group, VersionedResources: versions})
	}
	return restmapper.NewDiscoveryRESTMapper(list)
}

func (m mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.all().KindFor(r)
}

func (m mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.all().KindsFor(r)
}

func (m mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.all().ResourceFor(r)
}

func (m mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.all().ResourcesFor(r)
}

func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.of(gk.Group).RESTMapping(gk, versions...)
}

func (m mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.of(gk.Group).RESTMappings(gk, versions...)
}

func (m mapper) ResourceSingularizer(resource string) (string, error) {
	return m.all().ResourceSingularizer(resource)
}
