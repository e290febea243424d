package framework

import (
	"cmp"
	"context"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

type gate struct {
	name   string
	handle *Handle
	plugin fwk.PreEnqueuePlugin
}

func (g *gate) Name() string { return g.name }

// Gated runs PreEnqueue.
func (g *gate) Gated(p *snapshot.Pod) string {
	status := g.plugin.PreEnqueue(g.handle.context(), p.Obj)
	if status.IsError() {
		g.handle.logger().Error(status.AsError(), "PreEnqueue failed", "plugin", g.name)
	}
	if status.IsSuccess() {
		return ""
	}
	return cmp.Or(status.Message(), "no reason is given")
}

type queueSort struct {
	name   string
	plugin fwk.QueueSortPlugin
}

func (s *queueSort) Name() string { return s.name }

func (s *queueSort) Less(a, b *queue.Item) bool {
	return s.plugin.Less(queuedPod{a}, queuedPod{b})
}

type reserve struct {
	name   string
	plugin fwk.ReservePlugin
}

func (r *reserve) Name() string { return r.name }

func (r *reserve) Reserve(ctx context.Context, p *commit.Placement) *commit.Status {
	state, pod := stateOf(p)
	return failed(r.plugin.Reserve(ctx, state, pod, p.Node))
}

func (r *reserve) Unreserve(ctx context.Context, p *commit.Placement) {
	state, pod := stateOf(p)
	r.plugin.Unreserve(ctx, state, pod, p.Node)
}

type permit struct {
	name   string
	plugin fwk.PermitPlugin
}

func (r *permit) Name() string { return r.name }

func (r *permit) Permit(ctx context.Context, p *commit.Placement) (time.Duration, *commit.Status) {
	state, pod := stateOf(p)
	status, timeout := r.plugin.Permit(ctx, state, pod, p.Node)
	if status.IsWait() {
		return max(timeout, time.Nanosecond), nil // a wait of no time ends at once, refused
	}
	return 0, failed(status)
}

type preBind struct {
	name   string
	plugin fwk.PreBindPlugin
}

func (b *preBind) Name() string { return b.name }

func (b *preBind) PreFlight(ctx context.Context, p *commit.Placement) (bool, *commit.Status) {
	state, pod := stateOf(p)
	_, status := b.plugin.PreBindPreFlight(ctx, state, pod, p.Node)
	if status.IsSkip() {
		return false, nil
	}
	return true, failed(status)
}

func (b *preBind) PreBind(ctx context.Context, p *commit.Placement) *commit.Status {
	state, pod := stateOf(p)
	return failed(b.plugin.PreBind(ctx, state, pod, p.Node))
}

type bind struct {
	name   string
	plugin fwk.BindPlugin
}

func (b *bind) Name() string { return b.name }

func (b *bind) Bind(ctx context.Context, p *commit.Placement) (bool, *commit.Status) {
	state, pod := stateOf(p)
	status := b.plugin.Bind(ctx, state, pod, p.Node)
	if status.IsSkip() {
		return false, nil
	}
	return true, failed(status)
}

type postBind struct {
	name   string
	plugin fwk.PostBindPlugin
}

func (b *postBind) Name() string { return b.name }

func (b *postBind) PostBind(ctx context.Context, p *commit.Placement) {
	state, pod := stateOf(p)
	b.plugin.PostBind(ctx, state, pod, p.Node)
}
