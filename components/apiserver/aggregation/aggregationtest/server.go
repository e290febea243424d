// Package aggregationtest is a small extension server, for tests: it serves resources of zoo.example.com, with
// discovery and OpenAPI, and records the users of requests.
package aggregationtest

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/internal/certs"
)

// GroupVersion is what the server serves.
var GroupVersion = schema.GroupVersion{Group: "zoo.example.com", Version: "v1"}

// Host is the name in its certificate: that of Service zoo in namespace default.
const Host = "zoo.default.svc"

// Server is an extension server on the loopback. Its fields may be set before Start.
type Server struct {
	// Old makes it tell what it serves as servers did before there were aggregated discovery and OpenAPI v3.
	Old bool
	// Proxies are those whose client certificates it takes, in PEM; nil takes any client.
	Proxies []byte

	authority *certs.Authority
	server    *httptest.Server

	mu        sync.Mutex
	meanwhile map[string]func() // by path
	sick      int
	well      string // the path that is answered even so
	resource  string
	requests  []Request
}

// Request is what came in.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	// Proxy is the name in the client's certificate, "" without one.
	Proxy string
	Body  string
}

// Start serves until the test ends.
func (s *Server) Start(t *testing.T) *Server {
	t.Helper()
	authority, err := certs.NewAuthority("zoo")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Serving("zoo", Host)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.authority, s.resource = authority, "things"
	config := &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequestClientCert,
		MinVersion: tls.VersionTLS12}
	if s.Proxies != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(s.Proxies)
	}
	s.server = httptest.NewUnstartedServer(s)
	s.server.TLS = config
	s.server.EnableHTTP2 = true
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are meant to
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

// CA is the PEM of the authorities that signed its certificate.
func (s *Server) CA() []byte { return s.authority.Cert }

// Port is where it listens.
func (s *Server) Port() int32 {
	_, text, _ := net.SplitHostPort(s.server.Listener.Addr().String())
	port, _ := strconv.ParseInt(text, 10, 32)
	return int32(port)
}

// Close ends it before the test does.
func (s *Server) Close() { s.server.Close() }

// Sicken makes it answer everything with a code, or as it should if that is 0.
func (s *Server) Sicken(code int) { s.SickenBut(code, "") }

// SickenBut is Sicken for all but one path.
func (s *Server) SickenBut(code int, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sick, s.well = code, path
}

// Meanwhile makes it call a function while it serves a path, before it answers.
func (s *Server) Meanwhile(path string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meanwhile == nil {
		s.meanwhile = map[string]func(){}
	}
	s.meanwhile[path] = do
}

// Rename makes it serve another resource.
func (s *Server) Rename(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resource = resource
}

// Requests are those for a path so far.
func (s *Server) Requests(path string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.requests {
		if r.Path == path {
			out = append(out, r)
		}
	}
	return out
}

func (s *Server) note(r *http.Request) (sick int, resource string) {
	body, _ := io.ReadAll(r.Body)
	in := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(),
		Body: string(body)}
	if len(r.TLS.PeerCertificates) > 0 {
		in.Proxy = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, in)
	if r.URL.Path == s.well {
		return 0, s.resource
	}
	return s.sick, s.resource
}

func (s *Server) during(path string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meanwhile[path]
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sick, resource := s.note(r)
	if do := s.during(r.URL.Path); do != nil {
		do()
	}
	if sick != 0 {
		http.Error(w, "not well", sick)
		return
	}
	root := "/apis/" + GroupVersion.String()
	switch path := r.URL.Path; {
	case path == root:
		write(w, r, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: GroupVersion.String(),
			APIResources: []metav1.APIResource{
				{Name: resource, SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: verbs,
					ShortNames: []string{"th"}},
				{Name: resource + "/status", Namespaced: true, Kind: "Thing", Verbs: []string{"get"}},
			},
		})
	case path == "/apis" && !s.Old:
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		write(w, r, aggregated(resource))
	case path == "/openapi/v2":
		write(w, r, documentV2())
	case path == "/openapi/v3" && !s.Old:
		at := strings.TrimPrefix(root, "/")
		write(w, r, map[string]any{"paths": map[string]any{
			at:        map[string]any{"serverRelativeURL": "/openapi/v3/" + at + "?hash=H"},
			"version": map[string]any{"serverRelativeURL": "/openapi/v3/version?hash=H"},
		}})
	case path == "/openapi/v3"+root:
		write(w, r, map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "zoo", "version": "1"},
			"paths": map[string]any{}})
	case strings.HasSuffix(path, "/moved"):
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case strings.HasSuffix(path, "/echo"):
		echo(w, r)
	case strings.HasPrefix(path, root+"/") && strings.HasSuffix(path, "/"+resource):
		w.Header().Set("Warning", `299 - "things bite"`)
		write(w, r, map[string]any{"kind": "ThingList", "apiVersion": GroupVersion.String(),
			"metadata": map[string]any{"resourceVersion": "7"}, "items": []any{}})
	default:
		http.NotFound(w, r)
	}
}

var verbs = []string{"create", "delete", "get", "list", "watch"}

func aggregated(resource string) *apidiscoveryv2.APIGroupDiscoveryList {
	return &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: GroupVersion.Group},
			Versions: []apidiscoveryv2.APIVersionDiscovery{
				{Version: GroupVersion.Version, Resources: []apidiscoveryv2.APIResourceDiscovery{{
					Resource: resource, SingularResource: "thing", Scope: apidiscoveryv2.ScopeNamespace, Verbs: verbs,
					ShortNames:   []string{"th"},
					ResponseKind: &metav1.GroupVersionKind{Kind: "Thing"},
					Subresources: []apidiscoveryv2.APISubresourceDiscovery{
						{Subresource: "status", Verbs: []string{"get"},
							ResponseKind: &metav1.GroupVersionKind{Kind: "Thing"}}},
				}}}},
		}},
	}
}

func documentV2() map[string]any {
	thing := map[string]any{"$ref": "#/definitions/com.example.zoo.Thing"}
	return map[string]any{
		"swagger": "2.0", "info": map[string]any{"title": "zoo", "version": "1"},
		"paths": map[string]any{
			"/apis/" + GroupVersion.String() + "/namespaces/{namespace}/things": map[string]any{"get": map[string]any{
				"operationId": "readThing",
				"responses":   map[string]any{"200": map[string]any{"description": "OK", "schema": thing}},
			}},
			"/apis/other.example.com/v1/things": map[string]any{"get": map[string]any{
				"operationId": "readOther",
				"responses":   map[string]any{"200": map[string]any{"description": "OK", "schema": thing}},
			}},
		},
		"definitions": map[string]any{
			"com.example.zoo.Thing": map[string]any{
				"type": "object", "description": "A thing in the zoo.",
				"properties": map[string]any{
					"metadata": map[string]any{
						"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
				"x-kubernetes-group-version-kind": []any{
					map[string]any{"group": GroupVersion.Group, "version": GroupVersion.Version, "kind": "Thing"}},
			},
			"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": map[string]any{"type": "object",
				"description": "Not quite upstream's."},
		},
	}
}

// write answers with JSON and its ETag.
func write(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("ETag", etag)
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = w.Write(body)
}

// echo upgrades the connection and sends back what it reads, line by line, in capitals.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	for lines := bufio.NewScanner(buffered); lines.Scan(); {
		fmt.Fprintln(conn, strings.ToUpper(lines.Text()))
	}
}
