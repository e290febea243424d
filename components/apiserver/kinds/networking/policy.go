package networking

import (
	"context"
	"net"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var networkPolicyParts = api.Parts[*networkingv1.NetworkPolicy, networkingv1.NetworkPolicySpec, struct{}]{
	Spec: func(p *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicySpec { return &p.Spec },
}

func networkPolicies() *api.Kind {
	return api.Define(api.Row[*networkingv1.NetworkPolicy]{
		Name: "NetworkPolicy", Resource: "networkpolicies", ShortNames: []string{"netpol"},
		Hub:     networkingv1.SchemeGroupVersion,
		Default: DefaultPolicy,
		RemovedVersions: []api.Version{api.RemovedTwin[*extensionsv1beta1.NetworkPolicy](extensionsv1beta1.SchemeGroupVersion,
			DefaultPolicyExtensions)},
		Strategy: api.Strategy[*networkingv1.NetworkPolicy]{
			PrepareCreate: networkPolicyParts.Create,
			PrepareUpdate: func(ctx context.Context, new, old *networkingv1.NetworkPolicy) {
				// an empty list is not none
				if networkPolicyParts.Update(ctx, new, old); !reflect.DeepEqual(new.Spec, old.Spec) {
					new.SetGeneration(old.GetGeneration() + 1)
				}
			},
			Validate:            api.OfObject(ValidatePolicy),
			ValidateUpdate:      api.OfChange(ValidatePolicyUpdate),
			Warnings:            api.OfChange(PolicyWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: PolicyColumns(),
		Row:     PolicyRow,
	})
}

// DefaultPolicy sets the defaults of a network policy.
func DefaultPolicy(p *networkingv1.NetworkPolicy) {
	tcp := corev1.ProtocolTCP
	protocols := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			if ports[i].Protocol == nil {
				ports[i].Protocol = &tcp
			}
		}
	}
	for i := range p.Spec.Ingress {
		protocols(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		protocols(p.Spec.Egress[i].Ports)
	}
	policyTypes(p)
}

// policyTypes sets which directions a policy is about.
func policyTypes(p *networkingv1.NetworkPolicy) {
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

// ValidatePolicy checks a network policy.
func ValidatePolicy(p *networkingv1.NetworkPolicy) field.ErrorList {
	return validatePolicy(p, legacy{})
}

// legacy is what may stay in a policy as it was there before.
type legacy struct {
	blocks    []string // of addresses, in whatever form
	selectors metavalidation.LabelSelectorValidationOptions
}

// ValidatePolicyUpdate checks a change; blocks that were there before need not be in canonical form, and of a policy
// whose own selector was bad, none of the selectors needs values that labels can have.
func ValidatePolicyUpdate(new, old *networkingv1.NetworkPolicy) field.ErrorList {
	var known legacy
	known.selectors.AllowInvalidLabelValueInSelector = len(known.selector(&old.Spec.PodSelector, nil)) > 0
	collect := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, p := range peers {
			if p.IPBlock != nil {
				known.blocks = append(append(known.blocks, p.IPBlock.CIDR), p.IPBlock.Except...)
			}
		}
	}
	for _, r := range old.Spec.Ingress {
		collect(r.From)
	}
	for _, r := range old.Spec.Egress {
		collect(r.To)
	}
	return validatePolicy(new, known)
}

func validatePolicy(p *networkingv1.NetworkPolicy, known legacy) field.ErrorList {
	at := field.NewPath("spec")
	errs := known.selector(&p.Spec.PodSelector, at.Child("podSelector"))
	for i, r := range p.Spec.Ingress {
		rule := at.Child("ingress").Index(i)
		errs = append(errs, policyPorts(r.Ports, rule.Child("ports"))...)
		errs = append(errs, policyPeers(r.From, rule.Child("from"), known)...)
	}
	for i, r := range p.Spec.Egress {
		rule := at.Child("egress").Index(i)
		errs = append(errs, policyPorts(r.Ports, rule.Child("ports"))...)
		errs = append(errs, policyPeers(r.To, rule.Child("to"), known)...)
	}
	if len(p.Spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(at.Child("policyTypes"), &p.Spec.PolicyTypes,
			"may not specify more than two policyTypes"))
	}
	for i, t := range p.Spec.PolicyTypes {
		errs = append(errs, checks.In(t, at.Child("policyTypes").Index(i), networkingv1.PolicyTypeIngress,
			networkingv1.PolicyTypeEgress)...)
	}
	return errs
}

func (l legacy) selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, l.selectors, at)
}

func policyPorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range ports {
		at := path.Index(i)
		if p.Protocol != nil {
			errs = append(errs, checks.In(*p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP,
				corev1.ProtocolSCTP)...)
		}
		if p.Port == nil {
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort,
					"may not be specified when `port` is not specified"))
			}
			continue
		}
		if p.Port.Type == intstr.String {
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort,
					"may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, checks.Text(p.Port.StrVal, at.Child("port"), utilvalidation.IsValidPortName)...)
			continue
		}
		for _, msg := range utilvalidation.IsValidPortNum(int(p.Port.IntVal)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port.IntVal, msg))
		}
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(at.Child("endPort"), p.Port.IntVal,
					"must be greater than or equal to `port`"))
			}
			for _, msg := range utilvalidation.IsValidPortNum(int(*p.EndPort)) {
				errs = append(errs, field.Invalid(at.Child("endPort"), *p.EndPort, msg))
			}
		}
	}
	return errs
}

func policyPeers(peers []networkingv1.NetworkPolicyPeer, path *field.Path, known legacy) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		p, at := &peers[i], path.Index(i)
		pods := p.PodSelector != nil || p.NamespaceSelector != nil
		if p.PodSelector != nil {
			errs = append(errs, known.selector(p.PodSelector, at.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			errs = append(errs, known.selector(p.NamespaceSelector, at.Child("namespaceSelector"))...)
		}
		if p.IPBlock != nil {
			errs = append(errs, policyBlock(p.IPBlock, at.Child("ipBlock"), known)...)
		}
		switch {
		case !pods && p.IPBlock == nil:
			errs = append(errs, field.Required(at, "must specify a peer"))
		case pods && p.IPBlock != nil:
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func policyBlock(b *networkingv1.IPBlock, at *field.Path, known legacy) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(at.Child("cidr"), "")}
	}
	errs := utilvalidation.IsValidCIDRForLegacyField(at.Child("cidr"), b.CIDR, true, known.blocks)
	// Blocks that were there before may have any form.
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil { // nothing can be a part of it
		return errs
	}
	for i, except := range b.Except {
		p := at.Child("except").Index(i)
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(p, except, true, known.blocks)...)
		if _, part, err := netutils.ParseCIDRSloppy(except); err == nil && !strictSubset(part, whole) {
			errs = append(errs, field.Invalid(p, except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

// strictSubset reports whether a block is a part of another that is larger.
func strictSubset(part, whole *net.IPNet) bool {
	partBits, _ := part.Mask.Size()
	wholeBits, _ := whole.Mask.Size()
	return whole.Contains(part.IP) && partBits > wholeBits
}

// PolicyColumns are the columns of network policies.
func PolicyColumns() show.Columns {
	return show.Name().String("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]).Age()
}

// PolicyRow are the cells of a network policy.
func PolicyRow(p *networkingv1.NetworkPolicy) []any {
	return []any{p.Name, show.Selector(&p.Spec.PodSelector), show.Age(p.CreationTimestamp)}
}

// PolicyWarnings tell of blocks of addresses that can be written in a better way.
func PolicyWarnings(new, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	peers := func(list []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i := range list {
			b := list[i].IPBlock
			if b == nil {
				continue
			}
			at := at.Index(i).Child("ipBlock")
			out = append(out, utilvalidation.GetWarningsForCIDR(at.Child("cidr"), b.CIDR)...)
			for k, except := range b.Except {
				out = append(out, utilvalidation.GetWarningsForCIDR(at.Child("except").Index(k), except)...)
			}
		}
	}
	for i := range new.Spec.Ingress {
		peers(new.Spec.Ingress[i].From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i := range new.Spec.Egress {
		peers(new.Spec.Egress[i].To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return out
}
