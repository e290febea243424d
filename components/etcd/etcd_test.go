package etcd

import (
	"context"
	"net/http"
	"testing"
	"time"
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
