package encryption

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v1beta1"
	"k8s.io/apiserver/pkg/util/feature"
	featuretesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kms/pkg/service"

	"quintet.dev/quintet/components/apiserver/storage"
)

// plugin is a key management service that keeps its secret well enough for a test.
type plugin struct {
	broken atomic.Bool
	calls  atomic.Int64
}

func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	if p.broken.Load() {
		return nil, errors.New("the safe is locked")
	}
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "a key"}, nil
}

func (p *plugin) Encrypt(_ context.Context, _ string, plain []byte) (*service.EncryptResponse, error) {
	p.calls.Add(1)
	return &service.EncryptResponse{Ciphertext: turned(plain), KeyID: "a key"}, nil
}

func (p *plugin) Decrypt(_ context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	p.calls.Add(1)
	return turned(r.Ciphertext), nil
}

func turned(in []byte) []byte {
	out := bytes.Clone(in)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// TestKMS encrypts with keys that a service outside the server protects, and is as healthy as that.
func TestKMS(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kms.sock")
	p := &plugin{}
	server := service.NewGRPCService(socket, 5*time.Second, p)
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	defer func() {
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	config := head + "- resources: [secrets]\n  providers: [{kms: {apiVersion: v2, name: safe, endpoint: 'unix://" +
		socket + "', timeout: 5s}}]\n"
	keys := load(t, config)
	defer keys.Close()
	below := inMemory(t)
	s := NewStore(below, keys.Transformers(), byPrefix)
	const key = "/registry/secrets/a/b"
	create := func() error { _, err := s.Create(t.Context(), key, []byte("plain"), 0); return err }
	for err := create(); err != nil; err = create() { // until the service listens, which nothing tells
		if errors.Is(err, storage.ErrExists) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		if err := check(t, keys); err == nil {
			continue
		}
	}
	sealed, err := below.Get(t.Context(), key)
	if err != nil || !bytes.HasPrefix(sealed.Value, []byte("k8s:enc:kms:v2:safe:")) ||
		bytes.Contains(sealed.Value, []byte("plain")) {
		t.Errorf("stored %q, %v", sealed.Value, err)
	}
	if kv, err := s.Get(t.Context(), key); err != nil || string(kv.Value) != "plain" || kv.Stale ||
		kv.Unreadable != nil {
		t.Errorf("read %q, %v, %v", kv.Value, kv.Unreadable, err)
	}
	// Another server knows nothing yet: it asks the service.
	asked := p.calls.Load()
	other := NewStore(below, load(t, config).Transformers(), byPrefix)
	if kv, err := other.Get(t.Context(), key); err != nil || string(kv.Value) != "plain" || p.calls.Load() == asked {
		t.Errorf("the other server read %q, %v, with %d calls", kv.Value, err, p.calls.Load()-asked)
	}

	if err := check(t, keys); err != nil {
		t.Errorf("healthy, but %v", err)
	}
	p.broken.Store(true)
	fresh := load(t, config)
	if err := check(t, fresh); err == nil || !strings.Contains(err.Error(), "the safe is locked") {
		t.Errorf("not healthy, but %v", err)
	}
}

// TestKMSv1: the first version of the protocol is spoken where that is wanted.
func TestKMSv1(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kms.sock")
	plugin := v1beta1.NewBase64Plugin(t, socket)
	file := filepath.Join(t.TempDir(), "config.yaml")
	config := head + "- resources: [secrets]\n  providers: [{kms: {apiVersion: v1, name: safe, endpoint: 'unix://" +
		socket + "', timeout: 5s}}]\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Config{File: file}); err == nil ||
		!strings.Contains(err.Error(), "Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.") {
		t.Errorf("without the gate: %v", err)
	}
	featuretesting.SetFeatureGateDuringTest(t, feature.DefaultFeatureGate, features.KMSv1, false) // and back to that
	keys := open(t, Config{File: file, KMSv1: true})
	defer keys.Close()
	below := inMemory(t)
	s := NewStore(below, keys.Transformers(), byPrefix)
	const key = "/registry/secrets/a/b"
	if _, err := s.Create(t.Context(), key, []byte("plain"), 0); err != nil {
		t.Fatal(err)
	}
	if sealed, err := below.Get(t.Context(), key); err != nil ||
		!bytes.HasPrefix(sealed.Value, []byte("k8s:enc:kms:v1:safe:")) {
		t.Errorf("stored %q, %v", sealed.Value, err)
	}
	if kv, err := s.Get(t.Context(), key); err != nil || string(kv.Value) != "plain" {
		t.Errorf("read %q, %v", kv.Value, err)
	}
	if all := keys.Checks(); len(all) != 1 || all[0].Name != "kms-provider-0" ||
		all[0].Probe(httptest.NewRequest(http.MethodGet, "/healthz", nil)) != nil {
		t.Errorf("checks: %v", all)
	}
	if string(plugin.LastEncryptRequest()) == "" {
		t.Error("the service was never asked")
	}
}

// check asks the one check that there is.
func check(t *testing.T, keys *Keys) error {
	t.Helper()
	checks := keys.Checks()
	if len(checks) != 1 || checks[0].Name != "kms-providers" {
		t.Fatalf("checks: %v", checks)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	return checks[0].Probe(r)
}
