package etcd

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestServesUntilTheContextEnds(t *testing.T) {
	server, err := New(Config{DataDir: t.TempDir(), ClientURL: "http://127.0.0.1:0", UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-ended:
		t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("never ready")
	}
	response, err := http.Get(server.ClientURL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for name, config := range map[string]Config{
		"no directory": {ClientURL: "http://127.0.0.1:0"},
		"no URL":       {DataDir: "x", ClientURL: "127.0.0.1"},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// serving runs a member, and returns a client of it and what ends it.
func serving(t *testing.T, c Config) (*clientv3.Client, func()) {
	t.Helper()
	server, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-ended:
		t.Fatalf("ended before it was ready: %v", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.ClientURL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestRestore: a member starts once from a snapshot, at a higher revision, and goes on from its own data after that; a
// snapshot that is damaged leaves the data alone.
func TestRestore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.db")
	c := Config{DataDir: t.TempDir(), ClientURL: "http://127.0.0.1:0", UnsafeNoFsync: true, RestoreSnapshot: file}
	client, end := serving(t, c)
	put := func(value string) int64 {
		t.Helper()
		answer, err := client.Put(t.Context(), "key", value)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Header.Revision
	}
	get := func() string {
		t.Helper()
		answer, err := client.Get(t.Context(), "key")
		if err != nil || len(answer.Kvs) != 1 {
			t.Fatal(answer, err)
		}
		return string(answer.Kvs[0].Value)
	}
	put("one")
	reader, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	last := put("two")
	end()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	client, end = serving(t, c)
	if got := get(); got != "one" {
		t.Errorf("restored: %q", got)
	}
	if next := put("three"); next <= last {
		t.Errorf("revision %d after %d", next, last)
	}
	end()
	client, end = serving(t, c)
	if got := get(); got != "three" {
		t.Errorf("restarted: %q", got)
	}
	end()
	if err := os.WriteFile(file, content[:len(content)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("damaged: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	client, end = serving(t, c)
	defer end()
	if got := get(); got != "three" {
		t.Errorf("after the damaged one: %q", got)
	}
}
