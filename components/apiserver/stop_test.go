package apiserver_test

import (
	"context"
	"net"
	"testing"
	"time"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
)

// TestStopsBeforeItIsReady ends servers at every moment of their start.
func TestStopsBeforeItIsReady(t *testing.T) {
	for delay := time.Duration(0); delay < 20*time.Millisecond; delay += time.Millisecond {
		config := options.Config{Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1),
			AuthorizationModes: []string{"Node", "RBAC"}}
		fair(&config)
		server, err := apiserver.New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("after %v: %v", delay, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the server that was ended after %v doesn't return", delay)
		}
		cancel()
	}
}
