package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// BenchmarkRequests measures what requests take between the connection and the store, which is in memory here: what of
// the server's processor time, and garbage, is its own.
func BenchmarkRequests(b *testing.B) {
	s := benched(b)
	s.send(b, http.MethodPost, "/api/v1/namespaces", "application/json", []byte(`{"metadata":{"name":"bench"}}`),
		http.StatusCreated)
	const pods = "/api/v1/namespaces/bench/pods"
	created := 0
	create := func(b *testing.B) {
		created++
		s.send(b, http.MethodPost, pods, runtime.ContentTypeProtobuf, benchPod(b, fmt.Sprintf("pod-%07d", created), ""),
			http.StatusCreated)
	}
	create(b)
	const pod = pods + "/pod-0000001"
	events := 0
	for _, bench := range []struct {
		name string
		op   func(b *testing.B, i int)
	}{
		{"create", func(b *testing.B, _ int) { create(b) }},
		{"update", func(b *testing.B, i int) {
			s.send(b, http.MethodPut, pod, runtime.ContentTypeProtobuf, benchPod(b, "pod-0000001", strconv.Itoa(i)),
				http.StatusOK)
		}},
		{"status", func(b *testing.B, i int) {
			s.send(b, http.MethodPatch, pod+"/status", string(types.StrategicMergePatchType),
				fmt.Appendf(nil, `{"status":{"message":"%d"}}`, i), http.StatusOK)
		}},
		{"merge", func(b *testing.B, i int) {
			s.send(b, http.MethodPatch, pod, string(types.MergePatchType),
				fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, i), http.StatusOK)
		}},
		{"apply", func(b *testing.B, i int) {
			s.send(b, http.MethodPatch, "/api/v1/namespaces/bench/configmaps/applied?fieldManager=bench",
				string(types.ApplyPatchType), fmt.Appendf(nil,
					`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"applied","namespace":"bench","labels":{"app":"bench"}},"data":{"mode":"bench","round":"%d"}}`, i), http.StatusOK, http.StatusCreated)
		}},
		// The next two take structured merge: they apply other fields than before, and write another version than is
		// stored.
		{"reshape", func(b *testing.B, i int) {
			keys := ""
			for k := range i % 40 {
				keys += fmt.Sprintf(`,"k%d":"%d"`, k, i)
			}
			s.send(b, http.MethodPatch, "/api/v1/namespaces/bench/configmaps/reshaped?fieldManager=bench",
				string(types.ApplyPatchType), fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1",
				"metadata":{"name":"reshaped","labels":{"app":"bench"}},"data":{"mode":"bench"%s}}`, keys),
				http.StatusOK, http.StatusCreated)
		}},
		{"event", func(b *testing.B, _ int) {
			events++
			s.send(b, http.MethodPost, "/apis/events.k8s.io/v1/namespaces/bench/events", runtime.ContentTypeJSON,
				fmt.Appendf(nil, `{"metadata":{"name":"event-%d"},"eventTime":"2026-01-01T00:00:00.000000Z",
				"reportingController":"bench.test/b","reportingInstance":"b","action":"Run","reason":"Benched","type":"Normal",
				"regarding":{"kind":"Pod","namespace":"bench","name":"pod-0000001","apiVersion":"v1"},"note":"n"}`, events),
				http.StatusCreated)
		}},
		{"get", func(b *testing.B, _ int) { s.send(b, http.MethodGet, pod, "", nil, http.StatusOK) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				bench.op(b, i)
			}
		})
	}
}

// benchedServer is asked by an administrator, who shows a certificate.
type benchedServer struct {
	handler http.Handler
	shown   *tls.ConnectionState
}

func benched(b *testing.B) *benchedServer {
	b.Helper()
	shown, authority := certificate(b)
	server, err := New(options.Config{ClientCAFile: authority, Storage: options.StorageMemory,
		BindAddress: net.IPv4(127, 0, 0, 1), AuthorizationModes: []string{"Node", "RBAC"},
		DisableAdmission: []string{"ServiceAccount"}, PriorityAndFairness: true, MaxRequestsInFlight: 400,
		MaxMutatingRequestsInFlight: 200})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	select {
	case <-server.Ready():
	case err := <-done:
		done <- err
		b.Fatal(err)
	}
	return &benchedServer{server.front.Handler(), shown}
}

// certificate is what a connection knows of an administrator, and the file of its authority.
func certificate(b *testing.B) (shown *tls.ConnectionState, authority string) {
	ca, err := certs.NewAuthority("bench")
	if err != nil {
		b.Fatal(err)
	}
	pair, err := ca.Client("admin", user.SystemPrivilegedGroup)
	if err != nil {
		b.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		b.Fatal(err)
	}
	authority = filepath.Join(b.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, ca.Cert, 0o600); err != nil {
		b.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed}}, authority
}

func (s *benchedServer) send(b *testing.B, method, path, media string, body []byte, codes ...int) {
	r := httptest.NewRequestWithContext(b.Context(), method, path, bytes.NewReader(body))
	r.TLS = s.shown
	r.Header.Set("Content-Type", media)
	r.Header.Set("Accept", runtime.ContentTypeProtobuf)
	r.Header.Set("User-Agent", "bench.test/v0.0.0 (linux/amd64) kubernetes/$Format")
	w := httptest.NewRecorder()
	served := make(chan struct{})
	go func() { // as HTTP/2 does it, with a stack that is small at first
		defer close(served)
		s.handler.ServeHTTP(w, r)
	}()
	<-served
	for _, code := range codes {
		if w.Code == code {
			return
		}
	}
	b.Fatalf("%s %s: %d: %s", method, path, w.Code, w.Body)
}

func benchPod(b *testing.B, name, round string) []byte {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench", "tier": "load"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.invalid/bench:1", Args: []string{"serve", "--port=8080"},
			Env: []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
		}}},
	}
	if round != "" {
		pod.Annotations = map[string]string{"round": round}
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	body, err := codec.Body(pod, kind, codec.Protobuf)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := codec.WriteObject(&out, codec.Protobuf, kind, body); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
