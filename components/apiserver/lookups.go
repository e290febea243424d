package apiserver

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// authorize refuses what the chain of authorizers, which is made after the kinds are, doesn't allow.
func (s *Server) authorize(ctx context.Context, a authorizer.AttributesRecord) error {
	decision, reason, err := s.authz.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return err
	}
	return answer.Forbidden(a, reason)
}

// stored returns an object as the caches, which are made after the kinds are, have it.
func (s *Server) stored(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	return s.local.Get(ctx, resource, namespace, name)
}

// resourceFor finds the resource of a kind among all that are served now, here or elsewhere.
func (s *Server) resourceFor(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	gv := kind.GroupVersion()
	for _, row := range s.served() {
		if row.Name == kind.Kind && slices.ContainsFunc(row.Versions, func(v kinds.Version) bool { return v.GroupVersion == gv && !v.Unserved }) {
			return gv.WithResource(row.Resource), nil
		}
	}
	if told := s.aggregator.Elsewhere()[gv]; told != nil {
		for _, r := range told.Resources {
			if r.ResponseKind != nil && r.ResponseKind.Kind == kind.Kind {
				return gv.WithResource(r.Resource), nil
			}
		}
	}
	return schema.GroupVersionResource{}, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

// namespaceLabels returns the labels of a namespace as the caches have them.
func (s *Server) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	ns, err := objects.As[*corev1.Namespace](s.local.Get(ctx, corev1.Resource("namespaces"), "", name))
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}
