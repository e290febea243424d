package kinds

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/networking"
)

func ipAddresses() *Kind {
	return define(row[*networkingv1.IPAddress]{
		Name: "IPAddress", Resource: "ipaddresses", ShortNames: []string{"ip"}, Cluster: true,
		Hub:    networkingv1.SchemeGroupVersion,
		Others: []Version{twinned[*networkingv1beta1.IPAddress, *networkingv1.IPAddress](networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: strategy[*networkingv1.IPAddress]{
			Validate:            networking.ValidateAddress,
			ValidateAmong:       wholeFirst(whatever(networking.ValidateAddress), networking.ValidateAddressChange),
			ValidateName:        networking.ValidateAddressName,
			NoGeneratedNames:    true,
			UnconditionalUpdate: true,
		},
		Columns: networking.AddressColumns(),
		Row:     networking.AddressRow,
	})
}

var cidrParts = parts[*networkingv1.ServiceCIDR, networkingv1.ServiceCIDRSpec, networkingv1.ServiceCIDRStatus]{
	spec:   func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRSpec { return &c.Spec },
	status: func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRStatus { return &c.Status },
}

func serviceCIDRs(deps Deps) *Kind {
	s := strategy[*networkingv1.ServiceCIDR]{
		PrepareCreate:       cidrParts.plainCreate,
		PrepareUpdate:       cidrParts.keepStatus,
		Validate:            networking.ValidateCIDR,
		ValidateUpdate:      networking.ValidateCIDRUpdate,
		ValidateName:        validation.NameIsDNSSubdomain,
		UnconditionalUpdate: true,
		Reset:               []string{"status"},
	}
	if deps.OpenCIDRStatus {
		s.PrepareCreate, s.PrepareUpdate, s.Reset = nil, nil, nil
	}
	return define(row[*networkingv1.ServiceCIDR]{
		Name: "ServiceCIDR", Resource: "servicecidrs", Cluster: true,
		Hub:      networkingv1.SchemeGroupVersion,
		Others:   []Version{twinned[*networkingv1beta1.ServiceCIDR, *networkingv1.ServiceCIDR](networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: s,
		Status: &strategy[*networkingv1.ServiceCIDR]{
			PrepareUpdate: cidrParts.statusUpdateOnly,
			Reset:         []string{"spec", "metadata"},
		},
		Columns: networking.CIDRColumns(),
		Row:     networking.CIDRRow,
	})
}
