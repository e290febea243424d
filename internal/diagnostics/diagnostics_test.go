package diagnostics

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

func TestServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer", Help: "It is."}))
	flags := func() map[string]string { return map[string]string{"secure-port": "10259"} }
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	options := delegated.Default()
	options.AlwaysAllowPaths = append(options.AlwaysAllowPaths, "/metrics", "/statusz", "/other", "/debug/pprof/")
	gate, err := delegated.New(t.Context(), options, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Profiling: profiles.Options{On: true}, Gate: gate, Listener: listener, Metrics: registry, Program: zpages.New("kube-player", time.Now, flags), Ready: func() error { return errors.New("caches are not filled yet") }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/healthz": {http.StatusOK, "ok"},
		"/livez":   {http.StatusOK, "ok"},
		"/readyz":  {http.StatusInternalServerError, "caches are not filled yet"},
		"/metrics": {http.StatusOK, "answer 0"},
		"/statusz": {http.StatusOK, "/flagz /healthz /livez /metrics /readyz /statusz"},
		"/flagz":   {http.StatusForbidden, "system:anonymous"},
		"/other":   {http.StatusNotFound, ""},

		"/debug/pprof/":          {http.StatusOK, "goroutine"},
		"/debug/pprof/goroutine": {http.StatusForbidden, "system:anonymous"},
		"/debug/flags/v":         {http.StatusForbidden, "system:anonymous"},
	} {
		response, err := client.Get("https://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != want.code || !strings.Contains(string(body), want.body) {
			t.Errorf("%s: %d %q, %v", path, response.StatusCode, body, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
