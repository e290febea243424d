package cri

import (
	"context"
	"maps"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// relistPeriod is how often all containers are listed for what has changed, as upstream's kubelet does: engines may
// have no events, and may lose one.
const relistPeriod = time.Second

// Events implements runtime.Runtime: an engine's own events, and differences between lists.
func (e *Engine) Events(ctx context.Context) (<-chan types.UID, error) {
	before, err := e.states(ctx)
	if err != nil {
		return nil, err
	}
	out := make(chan types.UID)
	events := make(chan types.UID)
	streaming, stop := context.WithCancel(ctx)
	stream, err := e.runtime.GetContainerEvents(streaming, &cri.GetEventsRequest{})
	if err != nil {
		stop()
		return nil, mark(err)
	}
	go receive(streaming, stream, events)
	go func() {
		defer close(out)
		defer stop()
		e.merge(ctx, before, events, out)
	}()
	return out, nil
}

// receive passes events of pods on until there are no more. An engine without events ends it at once.
func receive(ctx context.Context, stream grpc.ServerStreamingClient[cri.ContainerEventResponse],
	to chan<- types.UID) {
	for {
		event, err := stream.Recv()
		if err != nil {
			return
		}
		uid := types.UID(event.GetPodSandboxStatus().GetMetadata().GetUid())
		if uid == "" {
			continue
		}
		select {
		case to <- uid:
		case <-ctx.Done():
			return
		}
	}
}

// merge delivers events and what lists differ in, until ctx ends or the engine does not answer.
func (e *Engine) merge(ctx context.Context, before map[string]seen, events <-chan types.UID, out chan<- types.UID) {
	ticker := time.NewTicker(relistPeriod)
	defer ticker.Stop()
	deliver := func(uid types.UID) bool {
		select {
		case out <- uid:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case uid := <-events:
			if !deliver(uid) {
				return
			}
		case <-ticker.C:
			now, err := e.states(ctx)
			if err != nil {
				return // the engine is lost
			}
			for uid := range changed(before, now) {
				if !deliver(uid) {
					return
				}
			}
			before = now
		}
	}
}

// seen is what a list tells of a sandbox or container.
type seen struct {
	uid   types.UID
	state int32
}

// changed are the pods of which one list has anything that another has not.
func changed(before, now map[string]seen) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for id, s := range now {
		if before[id] != s {
			uids[s.uid] = true
		}
	}
	for id, s := range before {
		if _, ok := now[id]; !ok {
			uids[s.uid] = true
		}
	}
	return uids
}

// states lists sandboxes and containers.
func (e *Engine) states(ctx context.Context) (map[string]seen, error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	labels := selector(e.options.Node, "")
	containers, err := e.runtime.ListContainers(ctx, &cri.ListContainersRequest{
		Filter: &cri.ContainerFilter{LabelSelector: maps.Clone(labels)}})
	if err != nil {
		return nil, mark(err)
	}
	sandboxes, err := e.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return nil, mark(err)
	}
	states := map[string]seen{}
	for _, c := range containers.GetContainers() {
		states[c.GetId()] = seen{podOf(c.GetLabels()).UID, int32(c.GetState())}
	}
	for _, s := range sandboxes.GetItems() {
		states[s.GetId()] = seen{podOf(s.GetLabels()).UID, int32(s.GetState())}
	}
	return states, nil
}
