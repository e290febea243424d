package networking

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// TestOldFaultsOfIngresses: what an ingress may have had since before it was checked, it may have on.
func TestOldFaultsOfIngresses(t *testing.T) {
	secret := func(name string) *networkingv1.Ingress {
		return &networkingv1.Ingress{
			Spec: networkingv1.IngressSpec{DefaultBackend: to("s"), TLS: []networkingv1.IngressTLS{{SecretName: name}}}}
	}
	nowhere := func(hosts ...string) *networkingv1.Ingress {
		out := &networkingv1.Ingress{}
		for _, host := range hosts {
			out.Spec.Rules = append(out.Spec.Rules, networkingv1.IngressRule{Host: host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}}})
		}
		return out
	}
	const wild, tame = "*.example.com", "a.example.com"
	for _, c := range []struct {
		name     string
		old, new *networkingv1.Ingress
		want     string
	}{
		{"a secret with a good name", secret("x"), secret("y_z"), "[spec.tls[0].secretName]"},
		{"one with a bad name", secret("x_y"), secret("y_z"), "[]"},
		{"a good rule", secret("x"), nowhere(wild), "[spec.rules[0].http.paths]"},
		{"a bad rule for a wildcard host", nowhere(wild), nowhere(wild, tame), "[spec.rules[1].http.paths]"},
		{"a bad rule for another", nowhere(tame), nowhere(wild), "[spec.rules[0].http.paths]"},
	} {
		got := []string{}
		for _, err := range (IngressRules{}).ValidateUpdate(c.new, c.old) {
			got = append(got, err.Field)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("after %s: %v, want %s", c.name, got, c.want)
		}
	}
}

func to(service string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}
