// Package etcdtest gives a test an etcd of its own.
package etcdtest

import (
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// Start runs an etcd until the test ends, and returns where it is reached. It begins empty, and never syncs files.
func Start(t testing.TB, change ...func(*embed.Config)) (endpoint string) {
	t.Helper()
	return Endpoint(Run(t, change...))
}

// Run is Start for tests that look into the etcd.
func Run(t testing.TB, change ...func(*embed.Config)) *embed.Etcd {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.UnsafeNoFsync = t.TempDir(), "fatal", true
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{any}, []url.URL{any}
	for _, f := range change {
		f(c)
	}
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
	return e
}

// Endpoint is where clients reach e.
func Endpoint(e *embed.Etcd) string { return "http://" + e.Clients[0].Addr().String() }
