package apiserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
)

// fixture is a server on the memory store, reached over TLS.
type fixture struct {
	server *apiserver.Server
	stop   func()
}

func start(t testing.TB, change ...func(*options.Config)) *fixture {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	lines := "admin,admin,1,\"system:masters\"\nalice,alice,2,\"dev\"\n"
	if err := os.WriteFile(tokens, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	config := options.Config{
		Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1), TokenAuthFile: tokens,
		AuthorizationModes: []string{"Node", "RBAC"},
	}
	for _, f := range change {
		f(&config)
	}
	server, err := apiserver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	stopped := false
	stop := func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-server.Ready():
	case err := <-done:
		stopped = true
		t.Fatalf("Run ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the server doesn't get ready")
	}
	return &fixture{server: server, stop: stop}
}

// as is the configuration of a client with that token.
func (f *fixture) as(token string) *rest.Config {
	return &rest.Config{
		Host: "https://" + f.server.Addr().String(), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
}

func (f *fixture) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	return f.clientOf(t, f.as("admin"))
}

func (f *fixture) clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// withoutServiceAccounts lets pods be created where no controller makes accounts.
func withoutServiceAccounts(c *options.Config) { c.DisableAdmission = []string{"ServiceAccount"} }

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	within(t, time.Minute, what, check)
}

// within is eventually for what takes the server longer by its nature.
func within(t *testing.T, bound time.Duration, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bound); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}
