package connect

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/follow"
)

// TestClientPairFollows: a renewed certificate is shown without a restart.
func TestClientPairFollows(t *testing.T) {
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write := func() {
		t.Helper()
		pair, err := ca.Client("kube-apiserver")
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{cert: pair.Cert, key: pair.Key} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	c, err := New(Config{ClientCertificate: cert, ClientKey: key})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() []byte {
		pair, err := c.kubelet.TLSClientConfig.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate[0]
	}
	first := shown()
	clk := testingclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx, clk) }()
	write()
	for bytes.Equal(shown(), first) {
		clk.Step(follow.Every)
		runtime.Gosched()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := New(Config{ClientCertificate: cert, ClientKey: "/none"}); err == nil || !strings.Contains(err.Error(), "--kubelet-client-key: open /none") {
		t.Errorf("a key that isn't there: %v", err)
	}
}
