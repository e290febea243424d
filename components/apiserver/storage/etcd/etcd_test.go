package etcd

import (
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	endpoint := startEtcd(t)
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

func startEtcd(t *testing.T) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.LogLevel = "fatal"
	c.UnsafeNoFsync = true
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{any}, []url.URL{any}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd doesn't get ready")
	}
	return "http://" + e.Clients[0].Addr().String()
}
