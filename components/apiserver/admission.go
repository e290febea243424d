package apiserver

import (
	"maps"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/admission/topologylabels"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/metrics"
)

func (s *Server) makeAdmission() (err error) {
	s.admission, err = admission.New(admission.Config{
		Only: s.config.OnlyAdmission, Enable: s.config.EnableAdmission, Disable: s.config.DisableAdmission, Without: s.withoutPlugins(), File: s.config.AdmissionFile,
		Objects: handlers.Whole{Local: s.local}, Authorizer: s.authz, AnyNodeAudience: !s.gates.On(gates.ServiceAccountNodeAudienceRestriction),
		AnyNodeName: s.gates.On(gates.AllowInsecureKubeletCertificateSigningRequests), Escalation: s.authz.Escalation(handlers.Now{Local: s.local}), Clock: s.config.Clock,
		NotReadySeconds: s.config.NotReadySeconds, UnreachableSeconds: s.config.UnreachableSeconds,
		Meter: metrics.NewAdmission(s.registry), PodSecurity: s.podSecurity(),
		Dynamic: dynamic.Config{
			Informers: s.self.informers, Client: s.self.client.Config(), Kinds: s.served, Services: s.resolver(), Egress: s.webhooks(),
			Elsewhere: func() map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery { return s.aggregator.Elsewhere() },
		},
	})
	return err
}

// withoutPlugins are the plug-ins whose features are off.
func (s *Server) withoutPlugins() (out []string) {
	if !s.gates.On(gates.MutatingAdmissionPolicy) {
		out = append(out, dynamic.MutatingPolicy)
	}
	if !s.gates.On(gates.PodTopologyLabelsAdmission) {
		out = append(out, topologylabels.Name)
	}
	return out
}

// served are all rows that are served now: those of the program, and of custom resources.
func (s *Server) served() []*kinds.Kind {
	rows := make([]*kinds.Kind, 0, len(s.table))
	for _, r := range s.table {
		rows = append(rows, r.Kind)
	}
	s.custom.mu.Lock()
	defer s.custom.mu.Unlock()
	return slices.AppendSeq(rows, maps.Keys(s.custom.caches))
}
