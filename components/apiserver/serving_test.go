package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/certs"
)

// ask sends a request of the administrator as it is.
func (f *fixture) ask(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.server.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func (f *fixture) text(t *testing.T, path string) string {
	t.Helper()
	body, err := io.ReadAll(f.ask(t, http.MethodGet, path).Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestEdge: the headers and requests of browsers and proxies, before authentication.
func TestEdge(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.Serving.CORSAllowedOrigins = []string{`^https://console\.example\.com$`}
		c.Serving.HSTS = []string{"max-age=31536000", "includeSubDomains"}
		c.Serving.HTTP2Streams = 10
	})
	r := f.ask(t, http.MethodGet, "/api/v1/namespaces", "Origin", "https://console.example.com")
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "https://console.example.com" ||
		r.Header.Get("Strict-Transport-Security") != "max-age=31536000; includeSubDomains" {
		t.Errorf("got %d %v", r.StatusCode, r.Header)
	}
	if r := f.ask(t, http.MethodGet, "/api/v1/namespaces", "Origin",
		"https://evil.example.com"); r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin may ask: %v", r.Header)
	}
	// Browsers send no credentials when they ask whether they may.
	if r := f.ask(t, http.MethodOptions, "/api/v1/namespaces", "Origin", "https://console.example.com", "Authorization",
		"Bearer nobody"); r.StatusCode != http.StatusNoContent {
		t.Errorf("a question beforehand: %d", r.StatusCode)
	}
}

// handshake connects once.
func (f *fixture) handshake(config *tls.Config) (tls.ConnectionState, error) {
	config.InsecureSkipVerify = true
	conn, err := tls.Dial("tcp", f.server.Addr().String(), config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

func TestHandshakes(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.Serving.Handshakes.MinVersion, c.Serving.Handshakes.NoHTTP2 = "VersionTLS13", true
		c.Serving.Handshakes.Curves = []int32{int32(tls.X25519)}
	})
	if _, err := f.handshake(&tls.Config{MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
	if _, err := f.handshake(&tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}); err == nil {
		t.Error("keys are exchanged by P-256")
	}
	state, err := f.handshake(&tls.Config{NextProtos: []string{"h2", "http/1.1"}})
	if err != nil || state.NegotiatedProtocol != "http/1.1" || state.Version != tls.VersionTLS13 {
		t.Errorf("got %s, %x, %v", state.NegotiatedProtocol, state.Version, err)
	}
	eventually(t, "failed handshakes are counted", func() bool {
		return strings.Contains(f.text(t, "/metrics"), "\napiserver_tls_handshake_errors_total 2\n")
	})
	const only = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	f = start(t, func(c *options.Config) { c.Serving.Handshakes.CipherSuites = []string{only} })
	if _, err := f.handshake(
		&tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}); err == nil {
		t.Error("a cipher that isn't listed is spoken")
	}
	if state, err := f.handshake(&tls.Config{MaxVersion: tls.VersionTLS12}); err != nil ||
		tls.CipherSuiteName(state.CipherSuite) != only {
		t.Errorf("got %s, %v", tls.CipherSuiteName(state.CipherSuite), err)
	}
}

// TestCertificatesByName: each host name has its certificate, by its own names or by those that the flag gives it.
func TestCertificatesByName(t *testing.T) {
	authority, err := certs.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := func(name string, hosts ...string) (cert, key string) {
		pair, err := authority.Serving(name, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		for path, content := range map[string][]byte{cert: pair.Cert, key: pair.Key} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert, key
	}
	var sni []cliflag.NamedCertKey
	flag := cliflag.NewNamedCertKeyArray(&sni)
	for name, suffix := range map[string]string{"own": "", "wild": ":*.wild.example.com,one.example.com"} {
		cert, key := files(name, name+".example.com", "127.0.0.1")
		if err := flag.Set(cert + "," + key + suffix); err != nil {
			t.Fatal(err)
		}
	}
	f := start(t, func(c *options.Config) {
		c.TLSCertFile, c.TLSKeyFile = files("default", "default.example.com")
		c.Serving.SNI = sni
	})
	for name, want := range map[string]string{
		"own.example.com": "own", "own": "own", "OWN.example.com": "own", "a.wild.example.com": "wild",
		"a.b.wild.example.com": "default",
		"one.example.com":      "wild", "wild.example.com": "default", "": "default",
	} {
		state, err := f.handshake(&tls.Config{ServerName: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := state.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestMetrics: those that dashboards ask for are there, with upstream's names and labels.
func TestMetrics(t *testing.T) {
	f := start(t, withoutServiceAccounts,
		func(c *options.Config) { c.Metrics.Disabled = []string{"apiserver_resource_objects"} })
	client := f.client(t)
	watch, err := client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod("p", "n"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-watch.ResultChan()
	if _, err := client.CoreV1().Endpoints("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	f.text(t, "/readyz")
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 1`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
		`apiserver_request_body_size_bytes_count{group="",resource="pods",verb="create"} 1`,
		`apiserver_watch_events_total{group="",resource="pods",version="v1"} 1`,
		`apiserver_watch_events_sizes_count{group="",resource="pods",version="v1"} 1`,
		`apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1`,
		`apiserver_admission_controller_admission_duration_seconds_count{name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"} 1`,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="validate"} 1`,
		`apiserver_storage_objects{resource="pods"} 1`,
		`apiserver_storage_objects{resource="clusterroles.rbac.authorization.k8s.io"} `,
		`apiserver_watch_cache_events_received_total{group="",resource="pods"} 1`,
		`etcd_request_duration_seconds_count{group="",operation="create",resource="pods"} 1`,
		`field_validation_request_duration_seconds_count{field_validation=""} 0`,
		`apiserver_request_timestamp_comparison_time_count{code_path="unequal_objects_fast"} `,
		`kubernetes_feature_enabled{name="APIServerIdentity",stage="BETA"} 1`,
		`kubernetes_build_info{`,
		`serviceaccount_valid_tokens_total 0`,
		`pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1`,
	} {
		if !strings.Contains(f.text(t, "/metrics"), "\n"+want) {
			t.Errorf("not there: %s", want)
		}
	}
	if strings.Contains(f.text(t, "/metrics"), "apiserver_resource_objects") {
		t.Error("a metric that is disabled is there")
	}
}

// TestStoredAsJSON: objects that have a protobuf form are written as the flag says, and read whatever they are.
func TestStoredAsJSON(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	f := start(t, func(c *options.Config) { c.Store = store })
	create := func(f *fixture, name string) {
		if _, err := f.client(t).CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(f, "a")
	f.stop()
	f = start(t, func(c *options.Config) { c.Store, c.StorageMediaType = store, "application/json" })
	create(f, "b")
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	for _, path := range []string{roles, roles + "/r"} { // in protobuf, what is empty is nothing
		method, body := "GET", ""
		if path == roles {
			method, body = "POST",
				`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[]}`
		}
		if _, text, _ := f.raw(t, method, path, "application/json", body); !strings.Contains(text, `"rules":[]`) {
			t.Errorf("%s %s: %s", method, path, text)
		}
	}
	for name, prefix := range map[string]string{"a": "k8s\x00", "b": `{"kind":"ConfigMap","apiVersion":"v1"`} {
		stored, err := store.Get(t.Context(), "/registry/configmaps/default/"+name)
		if err != nil || !bytes.HasPrefix(stored.Value, []byte(prefix)) {
			t.Errorf("%s: %q, %v", name, stored.Value, err)
		}
		if _, err := f.client(t).CoreV1().ConfigMaps("default").Get(t.Context(), name,
			metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestServiceKubernetes as flags want it.
func TestServiceKubernetes(t *testing.T) {
	f := start(t, func(c *options.Config) {
		c.AdvertiseAddress, c.EndpointReconciler, c.KubernetesNodePort = net.IPv4(192, 0, 2, 1),
			options.EndpointsUnmanaged, 30443
		c.ExternalHostname = "api.example.com"
	})
	service, err := f.client(t).CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30443 {
		t.Errorf("got %+v, %v", service, err)
	}
	if list, err := f.client(t).CoreV1().Endpoints("default").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(list.Items) != 0 {
		t.Errorf("endpoints: %+v, %v", list, err)
	}
	if got := f.text(t, "/.well-known/openid-configuration"); !strings.Contains(got, "https://api.example.com:") {
		t.Errorf("the issuer says %s", got)
	}
}

// TestDebugSocket serves profiles without asking who wants them.
func TestDebugSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "debug.sock")
	start(t, func(c *options.Config) { c.DebugSocket = path })
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
	defer client.CloseIdleConnections()
	for _, page := range []string{"", "cmdline"} {
		eventually(t, "the socket answers with "+page, func() bool {
			r, err := client.Get("http://debug/debug/pprof/" + page)
			if err != nil {
				return false
			}
			defer r.Body.Close()
			return r.StatusCode == http.StatusOK
		})
	}
}

// TestAServerThatEndsLeaves: it is no endpoint any more.
func TestAServerThatEndsLeaves(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	f := start(t, func(c *options.Config) { c.Store, c.AdvertiseAddress = store, net.IPv4(192, 0, 2, 1) })
	addresses := func(f *fixture) (n int) {
		e, err := f.client(t).CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		for _, subset := range e.Subsets {
			n += len(subset.Addresses)
		}
		return n
	}
	eventually(t, "it is an endpoint", func() bool { return addresses(f) == 1 })
	f.stop()
	if kv, err := store.Get(t.Context(), "/registry/masterleases/192.0.2.1"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("its lease is still there: %v, %v", kv, err)
	}
	if all, err := store.List(t.Context(),
		storage.Range{Prefix: "/registry/leases/kube-system/apiserver-"}); err != nil || len(all.Items) != 0 {
		t.Errorf("its Lease is still there: %v, %v", all, err)
	}
	f = start(t, func(c *options.Config) { c.Store, c.EndpointReconciler = store, options.EndpointsUnmanaged })
	if n := addresses(f); n != 0 {
		t.Errorf("%d addresses after it has ended", n)
	}
}
