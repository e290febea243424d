package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"k8s.io/component-base/logs"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/internal/zpages"
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
	h := onlyGet("", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path.Join(logDir, strings.TrimPrefix(r.URL.Path, "/logs")))
	})
	m.Exact("/logs", h)
	m.Prefix("/logs/", h)
}

func addProfiles(m *server.Mux) {
	m.Prefix("/debug/flags/", http.HandlerFunc(listDebugFlags))
	m.Exact("/debug/flags", http.HandlerFunc(listDebugFlags))
	m.Exact("/debug/flags/v", http.HandlerFunc(setVerbosity))
	m.Prefix("/debug/pprof/", http.HandlerFunc(pprof.Index))
	m.Exact("/debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	m.Exact("/debug/pprof/profile", http.HandlerFunc(pprof.Profile))
	m.Exact("/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	m.Exact("/debug/pprof/trace", http.HandlerFunc(pprof.Trace))
}

// listDebugFlags tells which flags can be changed while the server runs.
func listDebugFlags(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n"+
		"<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n")
}

// setVerbosity changes --v.
func setVerbosity(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	code, text := http.StatusOK, ""
	switch body, err := io.ReadAll(io.LimitReader(r.Body, maxVerbosity)); {
	case r.Method != http.MethodPut:
		code, text = http.StatusNotAcceptable, "unsupported http method"
	case err != nil:
		code, text = http.StatusBadRequest, "error reading request body: "+err.Error()
	default:
		if text, err = logs.GlogSetter(string(body)); err != nil {
			code, text = http.StatusBadRequest, err.Error()
		}
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}

// maxVerbosity is more than the longest number takes, in bytes.
const maxVerbosity = 64

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
	addProfiles(m)
	served := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = served.Close() })()
	if err := served.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--debug-socket-path %s: %w", path, err)
	}
	return nil
}
