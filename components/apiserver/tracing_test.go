package apiserver_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/egress/egresstest"
	"quintet.dev/quintet/components/apiserver/options"
)

// spans is a collector of OpenTelemetry.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]string // span name to the parent's id, in hexadecimal
	ids   map[string]string // span name to the audit ID
	own   map[string]string // span name to its id
}

// path names a span and those above it.
func (s *spans) path(name string) string {
	for above, id := range s.own {
		if id == s.names[name] && id != "" {
			return s.path(above) + " > " + name
		}
	}
	return name
}

func (s *spans) Export(_ context.Context,
	r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names[span.Name], s.own[span.Name] = string(span.ParentSpanId), string(span.SpanId)
				for _, a := range span.Attributes {
					if a.Key == "audit-id" {
						s.ids[span.Name] = a.Value.GetStringValue()
					}
				}
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestTracing sends spans straight to their collector, and through a proxy that the way to the control plane leads
// through.
func TestTracing(t *testing.T) {
	t.Run("straight", func(t *testing.T) { testTracing(t, func(*options.Config) {}) })
	t.Run("egress", func(t *testing.T) {
		asked := make(chan string, 100)
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Host
			egresstest.Tunnel(w, r)
		}))
		defer proxy.Close()
		testTracing(t, func(c *options.Config) {
			c.EgressFile = write(t,
				"apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: "+
					"controlplane\n  connection:\n"+
					"    proxyProtocol: HTTPConnect\n    transport:\n      tcp:\n        url: "+proxy.URL+"\n")
		})
		if len(asked) == 0 {
			t.Error("the proxy wasn't asked")
		}
	})
}

func testTracing(t *testing.T, change func(*options.Config)) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, got := grpc.NewServer(),
		&spans{names: map[string]string{}, ids: map[string]string{}, own: map[string]string{}}
	collector.RegisterTraceServiceServer(server, got)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	f := start(t, change, func(c *options.Config) {
		c.TracingConfigFile = write(t, "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: "+
			listener.Addr().String()+"\nsamplingRatePerMillion: 0\n")
	})
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		f.as("admin").Host+"/api/v1/namespaces/default/configmaps", nil)
	if err != nil {
		t.Fatal(err)
	}
	const parent = "\x00\xf0\x67\xaa\x0b\xa9\x02\xb7"
	request.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	request.Header.Set("Audit-ID", strings.Repeat("i", 70))
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	f.stop() // sends what is left
	got.mu.Lock()
	defer got.mu.Unlock()
	const name = "GET /api/v1/namespaces/{:namespace}/configmaps"
	if got.names[name] != parent {
		t.Errorf("spans and their parents: %q; want %q below %q", got.names, name, parent)
	}
	for _, traced := range []string{name, "List"} {
		if got.ids[traced] != strings.Repeat("i", 64) {
			t.Errorf("audit ID of %s: %q", traced, got.ids[traced])
		}
	}
	const wantPath = name + " > audit > constrainedimpersonation > authorization > List > SerializeObject"
	if path := got.path("SerializeObject"); path != wantPath {
		t.Errorf("spans above the answer: %s", path)
	}
	if path := got.path("cacher.GetList"); !strings.HasSuffix(path, "authorization > List > cacher.GetList") {
		t.Errorf("spans above the cache: %s", path)
	}
}

func TestTracingConfigIsChecked(t *testing.T) {
	const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for content, want := range map[string]string{
		header + "endpoint: a b":              "endpoint",
		header + "samplingRatePerMillion: -1": "samplingRatePerMillion",
		header + "sampling: 1":                `unknown field "sampling"`,
		"apiVersion: v1\nkind: ConfigMap":     "ConfigMap",
		"{":                                   "json",
	} {
		_, err := apiserver.New(options.Config{Storage: options.StorageMemory, TracingConfigFile: write(t, content)})
		if err == nil || !strings.Contains(err.Error(), "--tracing-config-file") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to name %s", content, err, want)
		}
	}
	if _, err := apiserver.New(
		options.Config{Storage: options.StorageMemory, TracingConfigFile: "/no/such"}); err == nil ||
		!strings.Contains(err.Error(), "/no/such") {
		t.Errorf("error %v", err)
	}
}

// write makes a file of that content.
func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
