package why

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollInterval is how often a waiter looks.
const pollInterval = 100 * time.Millisecond

// NotYet is the error of a waiter: what the object was when it gave up, and why.
type NotYet struct {
	Answer Answer
	// Err is why it gave up: the context's error, or nil if the object failed for good.
	Err error
}

// Error implements error.
func (e *NotYet) Error() string {
	if e.Err == nil {
		return e.Answer.String()
	}
	return fmt.Sprintf("%v; %v", e.Err, e.Answer)
}

// Unwrap returns Err.
func (e *NotYet) Unwrap() error { return e.Err }

// WaitReady waits until an object is ready, or has ended well. It fails at once if the object failed for good, and
// with a *NotYet when ctx ends. obj is as for Of.
func WaitReady(ctx context.Context, c client.Client, obj client.Object) error {
	return WaitFor(ctx, c, obj, Answer.Well)
}

// WaitGone waits until an object does not exist any more.
func WaitGone(ctx context.Context, c client.Client, obj client.Object) error {
	return WaitFor(ctx, c, obj, func(a Answer) bool { return a.State == Missing })
}

// WaitFor waits until the answer about an object is the wanted one. Errors of reading are waited out: the last of them
// is returned when ctx ends before anything was read.
func WaitFor(ctx context.Context, c client.Client, obj client.Object, done func(Answer) bool) error {
	var last *Answer
	var failed error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		a, err := Of(ctx, c, obj)
		if err != nil {
			failed = err
			return false, nil
		}
		last = &a
		switch {
		case done(a):
			return true, nil
		case a.State == Failed:
			return false, &NotYet{Answer: a}
		}
		return false, nil
	})
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case last == nil && failed != nil:
		return fmt.Errorf("%w; %w", ctx.Err(), failed)
	case last == nil:
		return ctx.Err()
	}
	return &NotYet{Answer: *last, Err: ctx.Err()}
}
