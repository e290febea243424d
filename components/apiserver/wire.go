package apiserver

import (
	"encoding/json"
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/version"

	"quintet.dev/quintet/components/apiserver/admission"
	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/authz"
	"quintet.dev/quintet/components/apiserver/bootstrap/policy"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/server"
)

// makeAuth makes who decides: authentication, authorization, admission. They read objects in process.
func (s *Server) makeAuth() (err error) {
	s.table = s.resources(kinds.Table(s.deps()))
	s.local = handlers.New(handlers.Config{Resources: s.table, Scheme: s.scheme, Codec: s.codec, Clock: s.config.Clock}).Local()
	s.authz, err = authz.New(authz.Config{Modes: s.config.AuthorizationModes, Objects: s.local, NodeRules: policy.NodeRules()})
	if err != nil {
		return err
	}
	s.authn, err = authn.New(authn.Config{
		ClientCAFile: s.config.ClientCAFile, RequestHeader: s.config.RequestHeader, TokenFile: s.config.TokenAuthFile,
		BootstrapTokens: s.config.BootstrapTokenAuth, Objects: s.local,
		Anonymous: !s.config.NoAnonymousAuth, Audiences: s.config.APIAudiences, Clock: s.config.Clock,
	})
	if err != nil {
		return err
	}
	s.admission, err = admission.New(admission.Config{
		Enable: s.config.EnableAdmission, Disable: s.config.DisableAdmission,
		Objects: s.local, Authorizer: s.authz, Escalation: s.authz.Escalation(), Clock: s.config.Clock,
		NotReadySeconds: s.config.NotReadySeconds, UnreachableSeconds: s.config.UnreachableSeconds,
	})
	return err
}

// deps are what rows of the table need from the rest; what is made later is reached through s.
func (s *Server) deps() kinds.Deps {
	return kinds.Deps{}
}

func (s *Server) makeAPI() error {
	s.api = handlers.New(handlers.Config{
		Resources: s.table, Scheme: s.scheme, Codec: s.codec, Clock: s.config.Clock,
		Admission: s.admission, Authorizer: s.authz,
	})
	return nil
}

// paths is everything that is not a resource.
func (s *Server) paths() *server.Mux {
	m := server.NewMux()
	m.Exact("/version", http.HandlerFunc(serveVersion))
	m.Exact("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string][]string{"paths": m.List()})
	}))
	return m
}

func serveVersion(w http.ResponseWriter, _ *http.Request) { writeJSON(w, version.Get()) }

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, r *http.Request, a authorizer.Attributes, reason string) {
	answer.Error(w, r, answer.Forbidden(a, reason))
}

func fail(w http.ResponseWriter, r *http.Request, err error) { answer.Error(w, r, err) }
