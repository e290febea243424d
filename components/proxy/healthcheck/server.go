// Package healthcheck answers load balancers and kubelets: whether a Service has endpoints on this node, and whether
// kube-proxy carries out what the API server says.
package healthcheck

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// readHeaderTimeout is for how long a client may take to send its request.
const readHeaderTimeout = 30 * time.Second

// server is an HTTP server whose end can be waited for.
type server struct {
	http    http.Server
	serving sync.WaitGroup // the loop that accepts
	conns   sync.WaitGroup
}

// startServer serves on a listener, which it closes in the end.
func startServer(logger klog.Logger, listener net.Listener, handler http.Handler) *server {
	s := &server{}
	s.http = http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ConnState: s.countConns}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Health check server failed", "address", listener.Addr())
		}
	})
	return s
}

func (s *server) countConns(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed:
		s.conns.Done()
	}
}

// close ends connections and waits until no goroutine is left.
func (s *server) close() error {
	err := s.http.Close()
	s.serving.Wait()
	_ = s.http.Close() // for a connection that came in meanwhile
	s.conns.Wait()
	return err
}

func writeJSON(w http.ResponseWriter, healthy bool, encode func() ([]byte, error)) {
	body, err := encode()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if healthy {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body) // the client may be gone
}

func compactJSON(value any) func() ([]byte, error) {
	return func() ([]byte, error) { return json.Marshal(value) }
}

func indentedJSON(value any) func() ([]byte, error) {
	return func() ([]byte, error) { return json.MarshalIndent(value, "", "\t") }
}
