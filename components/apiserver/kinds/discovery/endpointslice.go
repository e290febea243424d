// Package discovery holds what endpoint slices need beyond their row. It is pure.
package discovery

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

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
		s.Name, string(s.AddressType), show.Few(ports, show.Unset), show.Few(addresses, show.Unset), show.Age(s.CreationTimestamp),
	}
}
