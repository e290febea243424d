package discovery

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func endpointSlices() *api.Kind {
	return api.Define(api.Row[*discoveryv1.EndpointSlice]{
		Name: "EndpointSlice", Resource: "endpointslices",
		Hub:             discoveryv1.SchemeGroupVersion,
		Default:         Default,
		RemovedVersions: []api.Version{api.RemovedVersion(discoveryv1beta1.SchemeGroupVersion, FromV1beta1, Default)},
		Strategy: api.Strategy[*discoveryv1.EndpointSlice]{
			Meta: api.MetaObjects,
			PrepareCreate: func(_ context.Context, s *discoveryv1.EndpointSlice) {
				s.Generation = 1
				DropTopology(s, nil)
			},
			PrepareUpdate: prepareSliceUpdate,
			Validate: func(_ context.Context, s *discoveryv1.EndpointSlice) field.ErrorList {
				return Validate(s, nil)
			},
			Warnings:            api.OfChange(Warnings),
			ValidateUpdate:      api.OfChange(ValidateUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: Columns(),
		Row:     Row,
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
	DropTopology(new, old)
}

// Default sets the defaults of an endpoint slice.
func Default(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new(string)
		}
		if p.Protocol == nil {
			tcp := corev1.ProtocolTCP
			p.Protocol = &tcp
		}
	}
}

// Columns are the columns of endpoint slices.
func Columns() show.Columns {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return show.Name().
		String("AddressType", doc["addressType"]).
		String("Ports", doc["ports"]).
		String("Endpoints", doc["endpoints"]).
		Age()
}

// Row are the cells of an endpoint slice.
func Row(s *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			ports = append(ports, *p.Name)
		default:
			ports = append(ports, "*")
		}
	}
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return []any{
		s.Name, string(s.AddressType), show.Few(ports, show.Unset), show.Few(addresses, show.Unset),
		show.Age(s.CreationTimestamp),
	}
}
