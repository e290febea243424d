package apiserver

import "quintet.dev/quintet/components/apiserver/auditing"

// makeAudit makes what writes down who asked for what.
func (s *Server) makeAudit() (err error) {
	s.audit, err = auditing.New(s.config.Audit, s.egress.ControlPlane())
	return err
}
