package handlers

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// longestWrite is how long a write may take, as upstream has it: shorter than the time of a request, so that its client
// still gets an answer to it.
const longestWrite = 34 * time.Second

// inTime does what a call asks for, within that time if it is to one object and writes.
func (c *call) inTime(most time.Duration, do func() error) error {
	switch c.Verb {
	case "create", "update", "patch", "delete":
	default:
		return do()
	}
	if end, ok := c.ctx.Deadline(); !ok || time.Until(end) > most {
		ctx, cancel := context.WithTimeout(c.ctx, most)
		defer cancel()
		c.ctx = ctx
	}
	err := do()
	if err != nil && errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		return apierrors.NewTimeoutError("request did not complete within requested timeout - "+c.ctx.Err().Error(), 0)
	}
	return err
}
