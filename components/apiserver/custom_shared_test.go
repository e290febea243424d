package apiserver

import (
	"context"
	"net"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestShared: a server knows by their Leases that there are others, and by its flags.
func TestShared(t *testing.T) {
	config := options.Config{Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1),
		AuthorizationModes: []string{"RBAC"}}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	others := peerServers{registry: s.registry, id: s.id, told: s.config.Servers}
	if others.exist(ctx) || others.establishAfter() != 0 {
		t.Error("a server that is alone is not")
	}
	_, err = s.registry.Create(ctx, coordinationv1.Resource("leases"), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "apiserver-other",
			Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600)),
			RenewTime: new(metav1.NowMicro())},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return others.exist(ctx), nil
		})
	if err != nil {
		t.Errorf("a server is alone where another tells of itself: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	others.told = 2
	if !others.exist(t.Context()) || others.establishAfter() == 0 {
		t.Error("a server that is told of another is alone")
	}
}
