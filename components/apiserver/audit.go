package apiserver

import (
	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/server"
)

// makeAudit makes what writes down who asked for what.
func (s *Server) makeAudit() (err error) {
	s.audit, err = audit.New(s.config.Audit, s.egress.ControlPlane())
	return err
}

// auditFilters returns nil where nothing is written down: then no request pays for being watched.
func (s *Server) auditFilters() server.Audit {
	if s.audit == nil {
		return nil
	}
	return s.audit
}
