package apiserver

import (
	"quintet.dev/quintet/components/apiserver/authz"
	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/metrics"
)

// makeAuthorization makes what decides who may do what.
func (s *Server) makeAuthorization() (err error) {
	s.authz, err = authz.New(authz.Config{
		Modes: s.config.AuthorizationModes, Webhook: s.config.AuthorizationWebhook, WebhookGiven: s.config.AuthorizationWebhookGiven, ConfigFile: s.config.AuthorizationConfigFile,
		PolicyFile: s.config.AuthorizationPolicyFile,
		Dial:       s.egress.ControlPlane(),
		Graph:      metrics.Graph(s.registry),
		Objects:    s.local, NodeRules: policy.NodeRules(s.features()), Clock: s.config.Clock, Identity: s.id(),
	})
	return err
}
