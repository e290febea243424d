package handlers

import (
	"context"
	"testing"
	"time"
)

// TestCutOff: when a watch is over its client gets a last while to read, and the connection is good for others after it.
func TestCutOff(t *testing.T) {
	set := make(chan time.Time, 2)
	expire := func(at time.Time) error {
		set <- at
		return nil
	}
	ctx, over := context.WithCancel(t.Context())
	end := cutOff(ctx, expire)
	over()
	if at := <-set; !at.After(time.Now()) {
		t.Errorf("sending fails from %v", at)
	}
	end()
	if at := <-set; !at.IsZero() {
		t.Errorf("sending still fails from %v", at)
	}
	cutOff(t.Context(), expire)()
	if len(set) > 0 {
		t.Error("a watch that its client ended sets something")
	}
}
