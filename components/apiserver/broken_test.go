package apiserver_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestUnreadableRole: a server that needs what it can't read is not ready, and gets so when that is mended.
func TestUnreadableRole(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	const key = "/registry/clusterroles/bad"
	at, err := store.Create(t.Context(), key, []byte("nonsense"), 0)
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(apiserver.Config{Store: store, BindAddress: net.IPv4(127, 0, 0, 1), AuthorizationModes: []string{"RBAC"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-server.Ready():
		t.Fatal("ready without its roles")
	case err := <-done:
		done <- nil
		t.Fatalf("ended: %v", err)
	case <-time.After(100 * time.Millisecond): // the other end of the test: it never gets ready by itself
	}
	if _, err := store.Delete(t.Context(), key, at); err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.Ready():
	case <-time.After(time.Minute):
		t.Error("it doesn't get ready")
	}
}

// TestUnreadableObject fails the reads that would show it, and no other; it ends nothing.
func TestUnreadableObject(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Create(t.Context(), "/registry/configmaps/default/bad", []byte("nonsense"), 0); err != nil {
		t.Fatal(err)
	}
	client := start(t, withoutServiceAccounts, func(c *apiserver.Config) { c.Store = store }).client(t).CoreV1()
	if _, err := client.ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("list: %v", err)
	}
	if _, err := client.ConfigMaps("default").Get(t.Context(), "bad", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("get: %v", err)
	}
	if err := client.ConfigMaps("default").Delete(t.Context(), "bad", metav1.DeleteOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("delete: %v", err)
	}
	if _, err := client.ConfigMaps("other").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list beside it: %v", err)
	}
	if _, err := client.Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list of others: %v", err)
	}
}

// TestUnreadableWebhook: nothing is let in past a webhook of which nobody can tell whom it is to be asked about.
func TestUnreadableWebhook(t *testing.T) {
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicybindings"} {
		t.Run(resource, func(t *testing.T) {
			store := memory.New(nil)
			t.Cleanup(func() { _ = store.Close() })
			at, err := store.Create(t.Context(), "/registry/"+resource+"/bad", []byte("nonsense"), 0)
			if err != nil {
				t.Fatal(err)
			}
			client := start(t, withoutServiceAccounts, func(c *apiserver.Config) { c.Store = store }).client(t).CoreV1().ConfigMaps("default")
			_, err = client.Create(t.Context(), configMapFor("one"), metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not yet ready to handle request") {
				t.Errorf("created: %v", err)
			}
			if _, err := store.Delete(t.Context(), "/registry/"+resource+"/bad", at); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a write is let in", func() bool {
				_, err := client.Create(t.Context(), configMapFor("one"), metav1.CreateOptions{})
				return err == nil
			})
		})
	}
}
