package crd

import (
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
)

// newConverters makes what calls the webhooks of definitions; it is called when the first definition has one.
func newConverters(services webhook.ServiceResolver,
	egress webhook.AuthenticationInfoResolverWrapper) func() (*conversion.CRConverterFactory, error) {
	return sync.OnceValues(func() (*conversion.CRConverterFactory, error) {
		return conversion.NewCRConverterFactory(services, egress)
	})
}

// converterOf returns how objects of a definition are converted; nil if only their version's name changes.
func (m *Manager) converterOf(crd *definition) (converter, error) {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		return nil, nil
	}
	factory, err := m.converters()
	if err != nil {
		return nil, err
	}
	safe, _, err := factory.NewConverter(crd)
	if err != nil {
		return nil, fmt.Errorf("conversion webhook: %w", err)
	}
	return func(obj *unstructured.Unstructured, to schema.GroupVersion) (*unstructured.Unstructured, error) {
		out, err := safe.ConvertToVersion(obj, to)
		if err != nil {
			return nil, err
		}
		u, ok := out.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("the conversion webhook of %s made a %T", crd.Name, out)
		}
		return u, nil
	}, nil
}
