package kinds

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/discovery"
)

func endpointSlices() *Kind {
	return define(row[*discoveryv1.EndpointSlice]{
		Name: "EndpointSlice", Resource: "endpointslices",
		Hub:     discoveryv1.SchemeGroupVersion,
		Default: discovery.Default,
		Former:  []Version{former(discoveryv1beta1.SchemeGroupVersion, discovery.FromV1beta1, discovery.Default)},
		Strategy: strategy[*discoveryv1.EndpointSlice]{
			Meta: MetaObjects,
			PrepareCreate: func(_ context.Context, s *discoveryv1.EndpointSlice) {
				s.Generation = 1
				discovery.DropTopology(s, nil)
			},
			PrepareUpdate:       prepareSliceUpdate,
			Validate:            func(s *discoveryv1.EndpointSlice) field.ErrorList { return discovery.Validate(s, nil) },
			Warnings:            discovery.Warnings,
			ValidateUpdate:      discovery.ValidateUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: discovery.Columns(),
		Row:     discovery.Row,
	})
}

// prepareSliceUpdate counts every change but those of metadata that mean nothing to readers of endpoints.
func prepareSliceUpdate(_ context.Context, new, old *discoveryv1.EndpointSlice) {
	same := apiequality.Semantic.DeepEqual(new.Labels, old.Labels) &&
		apiequality.Semantic.DeepEqual(new.Endpoints, old.Endpoints) &&
		apiequality.Semantic.DeepEqual(new.Ports, old.Ports) && new.AddressType == old.AddressType
	if !same {
		new.Generation = old.Generation + 1
	}
	discovery.DropTopology(new, old)
}
