package apiserver

import (
	podsecurityapi "k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/metrics"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/admission/topologylabels"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/registry"
)

// newAdmission makes what looks at all that is written.
func newAdmission(b *base, r *kindRegistry, a access, c *catalog) (*admission.Chain, error) {
	config := &b.config
	return admission.New(admission.Config{
		Only: config.OnlyAdmission, Enable: config.EnableAdmission, Disable: config.DisableAdmission,
		Without: withoutPlugins(b.gates), File: config.AdmissionFile,
		Objects: registry.StrictReader{Local: r.Local}, Authorizer: a.authz,
		AnyNodeAudience: !b.gates.On(gates.ServiceAccountNodeAudienceRestriction),
		AnyNodeName:     b.gates.On(gates.AllowInsecureKubeletCertificateSigningRequests),
		Escalation:      a.authz.Escalation(registry.LiveReader{Local: r.Local}), Clock: config.Clock,
		NotReadySeconds: config.NotReadySeconds, UnreachableSeconds: config.UnreachableSeconds,
		Meter: metrics.NewAdmission(b.registry), PodSecurity: podSecurityRecorder(b),
		Dynamic: dynamic.Config{
			Informers: r.informers, Client: b.loopback.Config(), Kinds: c.served, Services: newServiceResolver(b, r),
			Egress: webhookEgress(b), Elsewhere: c.aggregator.Elsewhere,
		},
	})
}

// withoutPlugins are the plug-ins whose features are off.
func withoutPlugins(on *gates.Gates) (out []string) {
	if !on.On(gates.MutatingAdmissionPolicy) {
		out = append(out, dynamic.MutatingPolicy)
	}
	if !on.On(gates.PodTopologyLabelsAdmission) {
		out = append(out, topologylabels.Name)
	}
	return out
}

// podSecurityRecorder counts what the admission of pods by security level decides.
func podSecurityRecorder(b *base) podsecurity.Recorder {
	recorder := podsecurity.NewPrometheusRecorder(podsecurityapi.GetAPIVersion())
	recorder.MustRegister(b.library.MustRegister)
	return recorder
}
