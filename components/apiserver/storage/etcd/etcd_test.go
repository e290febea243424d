package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/components/apiserver/storage/storagetest"
	"quintet.dev/quintet/internal/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	endpoint := etcdtest.Start(t)
	storagetest.Run(t, func(t *testing.T) storage.Store {
		s, err := New(Config{Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestNewTellsWhatIsMissing(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("no endpoint is accepted")
	}
	if _, err := New(Config{Endpoints: []string{"https://127.0.0.1:1"}, CAFile: "/nowhere/ca.crt"}); err == nil {
		t.Error("a CA file that doesn't exist is accepted")
	}
}

// TestTLS proves who it is to a server that asks, and trusts it by its authority.
func TestTLS(t *testing.T) {
	authority, err := certs.NewAuthority("etcd-ca")
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Peer("etcd", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Client("kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.crt", authority.Cert)
	endpoint := etcdtest.Start(t, func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = file("server.crt", server.Cert),
			file("server.key", server.Key)
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = ca, true
		c.ListenClientUrls[0].Scheme = "https"
	})
	s, err := New(Config{
		Endpoints: []string{strings.Replace(endpoint, "http:", "https:", 1)},
		CAFile:    ca, CertFile: file("client.crt", client.Cert), KeyFile: file("client.key", client.Key),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), "/a", []byte("1"), 0); err != nil {
		t.Error(err)
	}
}

// TestDial: the connection goes the way that it is told, to the address in the URL.
func TestDial(t *testing.T) {
	endpoint := etcdtest.Start(t)
	var dialed atomic.Value
	s, err := New(Config{Endpoints: []string{endpoint},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Store(address)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Revision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimPrefix(endpoint, "http://"); dialed.Load() != want {
		t.Errorf("dialed %v, want %s", dialed.Load(), want)
	}
}

// TestLeasesAreShared: keys of about the same time end with one lease.
func TestLeasesAreShared(t *testing.T) {
	s, err := New(Config{Endpoints: []string{etcdtest.Start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%d", i), nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	granted, err := s.client.Leases(t.Context())
	if err != nil || len(granted.Leases) != 1 {
		t.Errorf("leases: %v, %v", granted, err)
	}
}

// TestSlowLeases: who waits for a lease waits only as long as he wants, and who needs none doesn't wait.
func TestSlowLeases(t *testing.T) {
	s, err := New(Config{Endpoints: []string{etcdtest.Start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, asked := s.leases.take(time.Hour) // and the answer doesn't come
	if id != clientv3.NoLease || asked != nil {
		t.Fatalf("got lease %d", id)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Create(ended, "/a", nil, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for the same lease: %v", err)
	}
	if _, err := s.Create(t.Context(), "/b", nil, 2*time.Hour); err != nil {
		t.Errorf("another lease: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Create(t.Context(), "/c", nil, time.Hour)
		done <- err
	}()
	if _, err := s.leases.grant(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the answer: %v", err)
	}
	if keys := s.leases.current[time.Hour].keys; keys != 2 {
		t.Errorf("%d keys are counted", keys)
	}
}

// TestLostLease: keys that end are written though the store no longer knows the lease that others were given, as after
// it was restored.
func TestLostLease(t *testing.T) {
	s, err := New(Config{Endpoints: []string{etcdtest.Start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lose := func() {
		t.Helper()
		if _, err := s.client.Revoke(t.Context(), s.leases.current[time.Hour].id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create(t.Context(), "/a", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	lose()
	revision, err := s.Create(t.Context(), "/b", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), "/b", nil, revision, time.Hour); err != nil {
		t.Errorf("an update: %v", err)
	}
	lose()
	if _, err := s.Create(t.Context(), "/c", nil, time.Hour); err != nil {
		t.Errorf("a creation: %v", err)
	}
}

// TestSize: it is that of an endpoint that answers.
func TestSize(t *testing.T) {
	endpoint := etcdtest.Start(t)
	s, err := New(Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if size := s.Size(t.Context()); size.Bytes <= 0 || size.Members[endpoint] != size.Bytes || len(size.Members) != 1 {
		t.Errorf("%+v", size)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if size := s.Size(ended); size.Bytes != -1 || size.Members[endpoint] != -1 {
		t.Errorf("%+v of who doesn't answer", size)
	}
}
