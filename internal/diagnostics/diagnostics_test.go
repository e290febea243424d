package diagnostics

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics/diagnosticstest"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

func TestServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	listener, get := diagnosticstest.Listen(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "answer", Help: "It is."}))
	flags := func() map[string]string { return map[string]string{"secure-port": "10259"} }
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	options := delegated.Default()
	options.AlwaysAllowPaths = append(options.AlwaysAllowPaths, "/livez/*", "/readyz/*", "/metrics", "/metrics/slis",
		"/configz", "/more", "/statusz", "/other", "/debug/pprof/")
	gate, err := delegated.New(t.Context(), options, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	later := func() []health.Check { return []health.Check{{Name: "late", Probe: health.Ping().Probe}} }
	s := &Server{Profiling: profiles.Options{On: true}, Gate: gate, Listener: listener, Metrics: registry,
		Program: zpages.New("kube-player", time.Now, flags), Configuration: map[string]any{"player": &metav1.Status{Code: 7}},
		More: map[string]http.Handler{"/more": http.NotFoundHandler()}, Later: later,
		Live: []health.Check{health.Ping()},
		Ready: []health.Check{{Name: "caches",
			Probe: func(*http.Request) error { return errors.New("not filled yet") }}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/healthz":         {http.StatusOK, "ok"},
		"/livez":           {http.StatusOK, "ok"},
		"/readyz":          {http.StatusInternalServerError, "[-]caches failed: reason withheld\nreadyz check failed"},
		"/readyz/caches":   {http.StatusInternalServerError, "not filled yet"},
		"/livez/ping":      {http.StatusOK, "ok"},
		"/healthz?verbose": {http.StatusOK, "[+]late ok\nhealthz check passed"},
		"/metrics":         {http.StatusOK, "answer 0"},
		"/statusz":         {http.StatusOK, "/configz /flagz /healthz /livez /metrics /more /readyz /statusz"},
		"/configz":         {http.StatusOK, `{"player":{"metadata":{},"code":7}}`},
		"/more":            {http.StatusNotFound, "404"},
		"/flagz":           {http.StatusForbidden, "system:anonymous"},
		"/other":           {http.StatusNotFound, ""},

		"/debug/pprof/":          {http.StatusOK, "goroutine"},
		"/debug/pprof/goroutine": {http.StatusForbidden, "system:anonymous"},
		"/debug/flags/v":         {http.StatusForbidden, "system:anonymous"},
	} {
		if code, body := get(path); code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	_, slis := get("/metrics/slis")
	for _, want := range []string{
		`kubernetes_healthcheck{name="ping",type="livez"} 1`, `kubernetes_healthcheck{name="caches",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="caches",status="error",type="readyz"}`,
	} {
		if !strings.Contains(slis, want) {
			t.Errorf("the SLIs lack %s:\n%s", want, slis)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
