package apiserver

import (
	"context"
	"net"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestEarlyStart: a server on memory writes what all clusters start with while it is made; one that can't be made
// leaves nothing behind.
func TestEarlyStart(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	config := options.Config{Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1),
		AuthorizationModes: []string{"RBAC"}}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- s.bootstrap.early.group.Wait() }()
	select {
	case <-s.bootstrap.early.laid: // without Run
	case err := <-failed:
		t.Fatalf("it ended before that: %v", err)
	}
	if _, err := s.registry.Live(t.Context(), rbacv1.Resource("clusterroles"), "", "cluster-admin"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	config.TLSCertFile, config.TLSKeyFile = "/no/such", "/no/such" // which is found out last
	if _, err := New(config); err == nil {
		t.Error("a server without the certificate that it was told to have")
	}
}

// TestLateContext: what runs since New logs where Run is told to, and isn't ended by that.
func TestLateContext(t *testing.T) {
	b := &lateContext{Context: context.Background()}
	ctx, cancel := context.WithCancel(b)
	defer cancel()
	var logged []string
	logger := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	running, end := context.WithCancel(klog.NewContext(t.Context(), logger))
	b.from.Store(&running)
	klog.FromContext(ctx).Info("here")
	if len(logged) != 1 {
		t.Errorf("logged %q", logged)
	}
	end()
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
	within, done := context.WithCancel(ctx)
	defer done()
	if err := within.Err(); err != nil {
		t.Error(err)
	}
}
