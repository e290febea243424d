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

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// logDir is where programs of the machine leave their logs.
const logDir = "/var/log"

// addLogs serves the machine's logs.
func addLogs(m *server.Mux) {
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

// addPages serves what the program tells of itself; listed are the paths that it tells of.
func addPages(m *server.Mux, b *base, listed func() []string) {
	p := zpages.New("apiserver", b.config.Clock.Now, b.config.CommandLine)
	p.Started, p.Paths, p.CBOR = b.made, listed, b.gates.On(gates.CBORServingAndStorage)
	offer := negotiate.Offer{Media: []codec.MediaType{codec.JSON, codec.YAML}, CBOR: p.CBOR}
	if p.CBOR {
		offer.Media = append(offer.Media, codec.CBOR)
	}
	p.Refuse = func(w http.ResponseWriter, r *http.Request, known []string) {
		accepted := "only the following media types are accepted: " + strings.Join(known, ", ")
		answer.ErrorIn(w, r, negotiate.NotAcceptable(accepted), offer)
	}
	if b.gates.On(gates.ComponentStatusz) {
		m.Exact(zpages.StatusPath, p.Status())
	}
	if b.gates.On(gates.ComponentFlagz) && p.Flags != nil {
		p.Flags = func() map[string]string { return filledIn(b) }
		m.Exact(zpages.FlagsPath, p.CommandLine())
	}
}

// serveDebug serves profiles at a Unix socket, to all that may open it, until ctx ends.
func serveDebug(ctx context.Context, path string) error {
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
	// Not all that may look at profiles over HTTPS see this.
	m.Exact("/debug/pprof/cmdline", http.HandlerFunc(pprof.Cmdline))
	served := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = served.Close() })()
	if err := served.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--debug-socket-path %s: %w", path, err)
	}
	return nil
}
