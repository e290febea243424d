package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// IngressFromV1beta1 converts an ingress, also of extensions/v1beta1, whose backends name services themselves, and
// whose paths need not say how they match.
func IngressFromV1beta1(i *networkingv1beta1.Ingress) *networkingv1.Ingress {
	out := &networkingv1.Ingress{ObjectMeta: i.ObjectMeta, Status: *twin.Of[networkingv1.IngressStatus](&i.Status),
		Spec: networkingv1.IngressSpec{
			IngressClassName: i.Spec.IngressClassName, TLS: twin.List[networkingv1.IngressTLS](i.Spec.TLS),
		}}
	if i.Spec.Backend != nil {
		backend := backendFromV1beta1(i.Spec.Backend)
		out.Spec.DefaultBackend = &backend
	}
	if i.Spec.Rules != nil {
		out.Spec.Rules = make([]networkingv1.IngressRule, len(i.Spec.Rules))
	}
	for n := range i.Spec.Rules {
		out.Spec.Rules[n] = ruleFromV1beta1(&i.Spec.Rules[n])
	}
	return out
}

func ruleFromV1beta1(r *networkingv1beta1.IngressRule) networkingv1.IngressRule {
	out := networkingv1.IngressRule{Host: r.Host}
	if r.HTTP == nil {
		return out
	}
	out.HTTP = &networkingv1.HTTPIngressRuleValue{}
	if r.HTTP.Paths != nil {
		out.HTTP.Paths = make([]networkingv1.HTTPIngressPath, len(r.HTTP.Paths))
	}
	for i := range r.HTTP.Paths {
		from, to := &r.HTTP.Paths[i], &out.HTTP.Paths[i]
		*to = networkingv1.HTTPIngressPath{
			Path: from.Path, PathType: twin.Of[networkingv1.PathType](from.PathType),
			Backend: backendFromV1beta1(&from.Backend),
		}
		if to.PathType == nil {
			kind := networkingv1.PathTypeImplementationSpecific
			to.PathType = &kind
		}
	}
	return out
}

// backendFromV1beta1 takes a backend for a service if it says anything of one.
func backendFromV1beta1(b *networkingv1beta1.IngressBackend) networkingv1.IngressBackend {
	out := networkingv1.IngressBackend{Resource: b.Resource}
	port := b.ServicePort
	if b.ServiceName != "" || port.IntVal != 0 || port.StrVal != "" || port.Type == intstr.String {
		out.Service = &networkingv1.IngressServiceBackend{
			Name: b.ServiceName, Port: networkingv1.ServiceBackendPort{Name: port.StrVal, Number: port.IntVal},
		}
	}
	return out
}

// DefaultPolicyExtensions sets the defaults of a policy that lies in the store as of extensions/v1beta1: protocols stay
// out.
func DefaultPolicyExtensions(p *networkingv1.NetworkPolicy) { policyTypes(p) }
