package kinds

import (
	"context"
	"reflect"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/networking"
)

var ingressParts = parts[*networkingv1.Ingress, networkingv1.IngressSpec, networkingv1.IngressStatus]{
	spec:   func(i *networkingv1.Ingress) *networkingv1.IngressSpec { return &i.Spec },
	status: func(i *networkingv1.Ingress) *networkingv1.IngressStatus { return &i.Status },
}

func ingresses(deps Deps) *Kind {
	rules := networking.IngressRules{StrictServiceNames: deps.StrictServiceNames}
	return define(row[*networkingv1.Ingress]{
		Name: "Ingress", Resource: "ingresses", ShortNames: []string{"ing"}, Prefix: "ingress",
		Hub: networkingv1.SchemeGroupVersion,
		Former: []Version{
			former(networkingv1beta1.SchemeGroupVersion, networking.IngressFromV1beta1, nil),
			formerLike[*extensionsv1beta1.Ingress](extensionsv1beta1.SchemeGroupVersion, networking.IngressFromV1beta1, nil),
		},
		Strategy: strategy[*networkingv1.Ingress]{
			Meta:                MetaAll,
			PrepareCreate:       ingressParts.create,
			PrepareUpdate:       ingressParts.update,
			Validate:            rules.Validate,
			ValidateUpdate:      rules.ValidateUpdate,
			Warnings:            networking.IngressWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*networkingv1.Ingress]{
			PrepareUpdate:  ingressParts.statusUpdate,
			ValidateUpdate: networking.ValidateIngressStatus,
			Warnings:       networking.IngressStatusWarnings,
			Reset:          []string{"spec"},
		},
		Columns: networking.IngressColumns(),
		Row:     networking.IngressRow,
	})
}

var ingressClassParts = parts[*networkingv1.IngressClass, networkingv1.IngressClassSpec, struct{}]{
	spec: func(c *networkingv1.IngressClass) *networkingv1.IngressClassSpec { return &c.Spec },
}

func ingressClasses() *Kind {
	return define(row[*networkingv1.IngressClass]{
		Name: "IngressClass", Resource: "ingressclasses", Cluster: true,
		Hub:     networkingv1.SchemeGroupVersion,
		Default: networking.DefaultIngressClass,
		Former:  []Version{formerTwin[*networkingv1beta1.IngressClass, *networkingv1.IngressClass](networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: strategy[*networkingv1.IngressClass]{
			PrepareCreate:       ingressClassParts.create,
			PrepareUpdate:       ingressClassParts.update,
			Validate:            networking.ValidateIngressClass,
			ValidateAmong:       changeFirst(networking.ValidateIngressClassChange, whatever(networking.ValidateIngressClass)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: networking.IngressClassColumns(),
		Row:     networking.IngressClassRow,
	})
}

var networkPolicyParts = parts[*networkingv1.NetworkPolicy, networkingv1.NetworkPolicySpec, struct{}]{
	spec: func(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicySpec { return &p.Spec },
}

func networkPolicies() *Kind {
	return define(row[*networkingv1.NetworkPolicy]{
		Name: "NetworkPolicy", Resource: "networkpolicies", ShortNames: []string{"netpol"},
		Hub:     networkingv1.SchemeGroupVersion,
		Default: networking.DefaultPolicy,
		Former:  []Version{formerTwin[*extensionsv1beta1.NetworkPolicy](extensionsv1beta1.SchemeGroupVersion, networking.DefaultPolicyExtensions)},
		Strategy: strategy[*networkingv1.NetworkPolicy]{
			PrepareCreate: networkPolicyParts.create,
			PrepareUpdate: func(ctx context.Context, new, old *networkingv1.NetworkPolicy) {
				if networkPolicyParts.update(ctx, new, old); !reflect.DeepEqual(new.Spec, old.Spec) { // an empty list is not none
					new.SetGeneration(old.GetGeneration() + 1)
				}
			},
			Validate:            networking.ValidatePolicy,
			ValidateUpdate:      networking.ValidatePolicyUpdate,
			Warnings:            networking.PolicyWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: networking.PolicyColumns(),
		Row:     networking.PolicyRow,
	})
}
