package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cluster-bootstrap/token/jws"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/join"
)

const goodToken = "abcdef.0123456789abcdef"

// apiServer is what a node that joins asks.
type apiServer struct {
	*httptest.Server
	pin      string
	signed   atomic.Bool // by goodToken
	expired  atomic.Bool // is the token
	node     atomic.Pointer[corev1.Node]
	requests atomic.Int64
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	authority, err := certs.NewAuthority("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("kube-apiserver", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{}
	if s.pin, err = join.PinOf(authority.Cert); err != nil {
		t.Fatal(err)
	}
	info, err := join.ClusterInfo("https://another:6443", authority.Cert)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := jws.ComputeDetachedSignature(info.Data["kubeconfig"], "abcdef", "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	config, err := join.NodeConfig{KubeletArgs: []string{"--config=kubelet.yaml"},
		Services:   []string{"kube-proxy", "node-routes"},
		Files:      map[string][]byte{"kubelet.yaml": []byte("kind: KubeletConfiguration\n")},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}.Object()
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if r.URL.Path != clusterInfoPath && (r.Header.Get("Authorization") != "Bearer "+goodToken || s.expired.Load()) {
			answer(w, http.StatusUnauthorized, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"},
				Message: "Unauthorized", Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized})
			return
		}
		switch {
		case r.URL.Path == clusterInfoPath:
			signed := info.DeepCopy()
			if s.signed.Load() {
				signed.Data["jws-kubeconfig-abcdef"] = signature
			}
			answer(w, http.StatusOK, signed)
		case r.URL.Path == nodeConfigPath:
			answer(w, http.StatusOK, config)
		case r.URL.Path == nodesPath+"a" && s.node.Load() != nil:
			answer(w, http.StatusOK, s.node.Load())
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token"):
			var request authenticationv1.TokenRequest
			if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Spec.BoundObjectRef == nil {
				http.Error(w, "no bound token is asked for", http.StatusBadRequest)
				return
			}
			request.Status.Token = r.URL.Path + " of " + request.Spec.BoundObjectRef.Name
			answer(w, http.StatusCreated, &request)
		default:
			answer(w, http.StatusNotFound, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"},
				Message: "not found", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.signed.Store(true)
	return s
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func (s *apiServer) address() string { return s.Listener.Addr().String() }

// options are those of a node called a.
func (s *apiServer) options(t *testing.T, further ...string) Options {
	t.Helper()
	args := append([]string{s.address(), "--token=" + goodToken, "--discovery-token-ca-cert-hash=" + s.pin,
		"--timeout=300ms"}, further...)
	o, err := Parse(args, func(string) string { return "" }, "a")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// buffer is a log that is written and read at once.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestNodeJoins(t *testing.T) {
	s, dir := newAPIServer(t), t.TempDir()
	n := New(s.options(t, "--", "--v=3"), dir, &buffer{})
	args, err := n.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--config=kubelet.yaml", "--hostname-override=a", "--node-ip=127.0.0.1", "--v=3"}
	if !slices.Equal(args, want) {
		t.Errorf("the kubelet's arguments are %q, want %q", args, want)
	}
	bootstrap, err := clientcmd.LoadFromFile(filepath.Join(dir, join.BootstrapConf))
	if err != nil || bootstrap.AuthInfos["bootstrap"].Token != goodToken ||
		bootstrap.Clusters["bootstrap"].Server != "https://"+s.address() {
		t.Fatalf("%+v, %v", bootstrap, err)
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		n.Enrol(t.Context(), func() error { return nil })
	}()
	must(t, os.WriteFile(filepath.Join(dir, join.KubeletConf), nil, 0o600)) // as the kubelet does
	s.node.Store(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}})
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatal("the services get no tokens")
	}
	for _, service := range []string{"kube-proxy", "node-routes"} {
		config, err := clientcmd.LoadFromFile(filepath.Join(dir, service+".conf"))
		if err != nil {
			t.Fatal(err)
		}
		want := "/api/v1/namespaces/kube-system/serviceaccounts/" + service + "/token of a"
		if got := config.AuthInfos[service].Token; got != want {
			t.Errorf("%s has the token %q", service, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, join.BootstrapConf)); !os.IsNotExist(err) {
		t.Error("the bootstrap token is still there", err)
	}

	// A restart asks nothing: the token may have expired.
	before := s.requests.Load()
	again := New(s.options(t, "--", "--v=3"), dir, &buffer{})
	if args, err := again.Prepare(t.Context()); err != nil || !slices.Equal(args, want) {
		t.Errorf("after a restart: %q, %v", args, err)
	}
	again.Enrol(t.Context(), func() error { return nil })
	if after := s.requests.Load(); after != before {
		t.Errorf("%d requests after a restart", after-before)
	}
}

func TestWhyANodeDoesNotJoin(t *testing.T) {
	other := "sha256:" + strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		change func(*apiServer, *Options)
		want   []string
	}{
		"wrong hash": {func(_ *apiServer, o *Options) { o.Pins = []string{other} }, []string{other, "join-command"}},
		"wrong secret": {func(_ *apiServer, o *Options) { o.Token.Secret = "fedcba9876543210" },
			[]string{"second part"}},
		"unknown":    {func(_ *apiServer, o *Options) { o.Token.ID = "fedcba" }, []string{"fedcba", "join-command"}},
		"not signed": {func(s *apiServer, _ *Options) { s.signed.Store(false) }, []string{"abcdef", "expired"}},
		"expired": {func(s *apiServer, _ *Options) { s.expired.Store(true) },
			[]string{"abcdef", "expired", "join-command"}},
		"unreachable": {func(s *apiServer, _ *Options) { s.Close() }, []string{"127.0.0.1", "network", "gave up"}},
		"name taken": {func(s *apiServer, _ *Options) {
			s.node.Store(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		}, []string{"NODE_NAME", "node remove a"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			o, dir := s.options(t), t.TempDir()
			test.change(s, &o)
			_, err := New(o, dir, &buffer{}).Prepare(t.Context())
			if err == nil {
				t.Fatal("it joins")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if files, _ := os.ReadDir(dir); len(files) > 0 {
				t.Errorf("it left %v", files)
			}
		})
	}
}

// A node whose token expires between its registration and the tokens of its services says so, and gives up.
func TestTokenExpiresMeanwhile(t *testing.T) {
	s, dir, log := newAPIServer(t), t.TempDir(), &buffer{}
	n := New(s.options(t), dir, log)
	if _, err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, join.KubeletConf), nil, 0o600))
	s.expired.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n.Enrol(ctx, func() error { t.Error("services are started without tokens"); return nil })
	if ctx.Err() != nil || !strings.Contains(log.String(), "join again with a new token") {
		t.Error(ctx.Err(), log)
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	pin := "--discovery-token-ca-cert-hash=sha256:" + strings.Repeat("a", 64)
	for want, args := range map[string][]string{
		"HOST:PORT":       {"--token=" + goodToken, pin},
		`"x"`:             {"x", "--token=" + goodToken, pin},
		"--token":         {"x:1", pin},
		"unsafe-skip":     {"x:1", "--token=" + goodToken},
		"64 hexadecimal":  {"x:1", "--token=" + goodToken, "--discovery-token-ca-cert-hash=sha256:1"},
		"unknown flag":    {"x:1", "--nonsense"},
		`NODE_NAME "a_b"`: {"x:1", "--token=" + goodToken, pin},
	} {
		_, err := Parse(args, func(string) string { return "a_b" }, "a")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"NODE_NAME": "Worker-A", "NODE_LABELS": "zone=a", "NODE_TAINTS": "only=infra:NoSchedule"}
	o, err := Parse([]string{"https://x:1", "--token", goodToken, "--discovery-token-unsafe-skip-ca-verification"},
		func(name string) string { return env[name] }, "host")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--hostname-override=worker-a", "--node-ip=10.0.0.1", "--node-labels=zone=a",
		"--register-with-taints=only=infra:NoSchedule"}
	if got := o.args(join.NodeConfig{}, []string{"10.0.0.1"}); !slices.Equal(got, want) || o.Server != "x:1" {
		t.Errorf("%q at %s, want %q", got, o.Server, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
