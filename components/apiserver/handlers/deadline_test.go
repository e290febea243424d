package handlers

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/registry"
)

// TestWritesEndBeforeTheirRequests, so that they are answered; what reads has all the time there is.
func TestWritesEndBeforeTheirRequests(t *testing.T) {
	hang := func(c *call) func() error {
		return func() error {
			if _, bounded := c.ctx.Deadline(); !bounded {
				return errUnbounded
			}
			<-c.ctx.Done()
			return c.ctx.Err()
		}
	}
	for verb, want := range map[string]string{
		"create": timedOut, "update": timedOut, "patch": timedOut, "delete": timedOut,
		"get": errUnbounded.Error(), "list": errUnbounded.Error(), "watch": errUnbounded.Error(),
		"deletecollection": errUnbounded.Error(),
	} {
		c := &call{exchange: exchange{ctx: t.Context()}, Request: registry.Request{Verb: verb}}
		if err := c.inTime(time.Millisecond, hang(c)); err == nil || err.Error() != want ||
			apierrors.IsTimeout(err) != (want == timedOut) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c := &call{exchange: exchange{ctx: over}, Request: registry.Request{Verb: "create"}}
	if err := c.inTime(time.Hour, hang(c)); !apierrors.IsTimeout(err) || c.ctx != over {
		t.Errorf("a request with less time: %v", err)
	}
	c = &call{exchange: exchange{ctx: t.Context()}, Request: registry.Request{Verb: "create"}}
	if err := c.inTime(time.Hour, func() error { return errUnbounded }); !errors.Is(err, errUnbounded) {
		t.Errorf("another error in time: %v", err)
	}
}

const timedOut = "Timeout: request did not complete within requested timeout - context deadline exceeded"

var errUnbounded = errors.New("no bound")
