// Package matchers are Gomega matchers for objects of a cluster. A failed one prints why the object is not what was
// expected (package why) instead of its fields:
//
//	Eventually(deployment).WithContext(ctx).WithTimeout(time.Minute).Should(matchers.BeReady(ctx, c))
package matchers

import (
	"context"
	"fmt"

	"github.com/onsi/gomega/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quintet.dev/quintet/why"
)

// BeReady succeeds for an object that is ready or has ended well; each match reads the object that the actual
// client.Object names.
func BeReady(ctx context.Context, c client.Client) types.GomegaMatcher {
	return &matcher{ctx: ctx, client: c, want: "ready", holds: why.Answer.Well}
}

// BeGone succeeds for an object that does not exist.
func BeGone(ctx context.Context, c client.Client) types.GomegaMatcher {
	return &matcher{ctx: ctx, client: c, want: "gone", holds: func(a why.Answer) bool { return a.State == why.Missing }}
}

// BeState succeeds for an object that is in a state.
func BeState(ctx context.Context, c client.Client, state why.State) types.GomegaMatcher {
	return &matcher{ctx: ctx, client: c, want: string(state), holds: func(a why.Answer) bool { return a.State == state }}
}

// HaveCause succeeds for an object that has a reason among its causes, at any depth.
func HaveCause(ctx context.Context, c client.Client, reason string) types.GomegaMatcher {
	return &matcher{ctx: ctx, client: c, want: "held by " + reason,
		holds: func(a why.Answer) bool { return a.Has(reason) }}
}

type matcher struct {
	ctx    context.Context
	client client.Client
	want   string
	holds  func(why.Answer) bool
	last   why.Answer
}

// Match implements types.GomegaMatcher.
func (m *matcher) Match(actual any) (bool, error) {
	obj, ok := actual.(client.Object)
	if !ok {
		return false, fmt.Errorf("the actual value is of type %T, no client.Object", actual)
	}
	var err error
	m.last, err = why.Of(m.ctx, m.client, obj)
	return err == nil && m.holds(m.last), err
}

// FailureMessage implements types.GomegaMatcher.
func (m *matcher) FailureMessage(any) string { return fmt.Sprintf("Expected %s: %v", m.want, m.last) }

// NegatedFailureMessage implements types.GomegaMatcher.
func (m *matcher) NegatedFailureMessage(any) string {
	return fmt.Sprintf("Expected not %s: %v", m.want, m.last)
}
