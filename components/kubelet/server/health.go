package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"quintet.dev/quintet/internal/health"
)

// addHealth serves whether the kubelet is well: /healthz, and its checks by name.
func addHealth(mux *http.ServeMux, checks []health.Check) {
	for path, handler := range health.Handlers("healthz", append([]health.Check{health.Ping()}, checks...)...) {
		mux.Handle("GET "+path, handler)
	}
}

// Health serves only /healthz, without TLS or authentication, until ctx ends.
func Health(ctx context.Context, listener net.Listener, checks []health.Check) error {
	mux := http.NewServeMux()
	addHealth(mux, checks)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
