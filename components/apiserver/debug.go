package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"quintet.dev/quintet/components/apiserver/server"
)

// installProfiles serves what Go knows of the process.
func (s *Server) installProfiles(m *server.Mux) {
	if !s.config.Profiling {
		return
	}
	if s.config.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	addProfiles(m)
}

// logDir is where programs of the machine leave their logs.
const logDir = "/var/log"

// installLogs serves the machine's logs, if that is wanted.
func (s *Server) installLogs(m *server.Mux) {
	if !s.config.LogFiles {
		return
	}
	h := onlyGet(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path.Join(logDir, strings.TrimPrefix(r.URL.Path, "/logs")))
	})
	m.Exact("/logs", h)
	m.Prefix("/logs/", h)
}

func addProfiles(m *server.Mux) {
	m.Prefix("/debug/pprof/", http.HandlerFunc(pprof.Index))
	m.Exact("/debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	m.Exact("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
	m.Exact("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	m.Exact("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
}

// serveDebug serves profiles at a Unix socket, to whoever may open it, until ctx ends.
func (s *Server) serveDebug(ctx context.Context) error {
	path := s.config.DebugSocket
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--debug-socket-path: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("--debug-socket-path: %w", err)
	}
	m := server.NewMux()
	addProfiles(m)
	served := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = served.Close() })()
	if err := served.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--debug-socket-path %s: %w", path, err)
	}
	return nil
}
