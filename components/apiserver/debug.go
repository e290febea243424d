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
	"strings"
	"syscall"
	"time"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// logDir is where programs of the machine leave their logs.
const logDir = "/var/log"

// installLogs serves the machine's logs, if that is wanted.
func (s *Server) installLogs(m *server.Mux) {
	if !s.config.LogFiles {
		return
	}
	h := onlyGet("", func(w http.ResponseWriter, r *http.Request) {
		name := path.Join(logDir, strings.TrimPrefix(r.URL.Path, "/logs"))
		if _, err := os.Stat(name); errors.Is(err, syscall.ENAMETOOLONG) { // which is no fault of the server's
			http.Error(w, "file not found", http.StatusNotFound)
			return
		}
		http.ServeFile(w, r, name)
	})
	m.Exact("/logs", h)
	m.Prefix("/logs/", h)
}

func addTo(m *server.Mux, handlers map[string]http.Handler) {
	for path, h := range handlers {
		if strings.HasSuffix(path, "/") {
			m.Prefix(path, h)
		} else {
			m.Exact(path, h)
		}
	}
}

// installPages serves what the program tells of itself.
func (s *Server) installPages(m *server.Mux) {
	p := zpages.New("apiserver", s.config.Clock.Now, s.config.CommandLine)
	p.Started, p.Paths, p.CBOR = s.made, func() []string { return s.listed(m) }, s.gates.On(gates.CBORServingAndStorage)
	offer := negotiate.Offer{Media: []serial.MediaType{serial.JSON, serial.YAML}, CBOR: p.CBOR}
	if p.CBOR {
		offer.Media = append(offer.Media, serial.CBOR)
	}
	p.Refuse = func(w http.ResponseWriter, r *http.Request, known []string) {
		answer.ErrorIn(w, r, negotiate.NotAcceptable("only the following media types are accepted: "+strings.Join(known, ", ")), offer)
	}
	if s.gates.On(gates.ComponentStatusz) {
		m.Exact(zpages.StatusPath, p.Status())
	}
	if s.gates.On(gates.ComponentFlagz) && p.Flags != nil {
		p.Flags = s.filledIn
		m.Exact(zpages.FlagsPath, p.CommandLine())
	}
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
	addTo(m, profiles.Handlers())
	m.Exact("/debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline)) // which isn't told to everybody who may look at profiles
	served := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = served.Close() })()
	if err := served.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--debug-socket-path %s: %w", path, err)
	}
	return nil
}
