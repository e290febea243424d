package dynamic

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// NewMapper returns what finds the resources of kinds among the rows that are served at the moment.
func NewMapper(rows func() []*kinds.Kind) meta.RESTMapper { return mapper{rows} }

// mapper finds the resources of kinds among the rows that are served at the moment. It implements meta.RESTMapper.
type mapper struct{ rows func() []*kinds.Kind }

func (m mapper) now() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper(nil)
	for _, row := range m.rows() {
		scope := meta.RESTScopeRoot
		if row.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		for i := range row.Versions {
			if v := &row.Versions[i]; !v.Unserved {
				out.AddSpecific(v.WithKind(row.Name), v.WithResource(row.Resource), v.WithResource(row.Singular), scope)
			}
		}
	}
	return out
}

func (m mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.now().KindFor(r)
}

func (m mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.now().KindsFor(r)
}

func (m mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.now().ResourceFor(r)
}

func (m mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.now().ResourcesFor(r)
}

func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.now().RESTMapping(gk, versions...)
}

func (m mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.now().RESTMappings(gk, versions...)
}

func (m mapper) ResourceSingularizer(resource string) (string, error) {
	return m.now().ResourceSingularizer(resource)
}
