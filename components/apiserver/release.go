package apiserver

import (
	"quintet.dev/quintet/components/apiserver/gates"
)

func (s *Server) setGates() (err error) {
	s.gates, err = gates.New(s.config.FeatureGates)
	return err
}

// checkAPIs judges the APIs that the configuration asks for.
func (s *Server) checkAPIs() error { return s.config.CheckRuntimeConfig(s.gates, s.scheme) }
