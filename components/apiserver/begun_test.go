package apiserver

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestBegun: a server on memory writes what all clusters start with while it is made; one that can't be made leaves nothing behind.
func TestBegun(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	config := Config{Storage: StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1), AuthorizationModes: []string{"RBAC"}}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	<-s.begun.laid // without Run
	if _, err := s.local.Live(t.Context(), rbacv1.Resource("clusterroles"), "", "cluster-admin"); err != nil {
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
