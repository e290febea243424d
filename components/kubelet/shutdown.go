package kubelet

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/shutdown"
)

// errShutdown ends the kubelet after its pods, because the machine shuts down.
var errShutdown = errors.New("the machine shuts down")

// lastReport bounds the last report of the node's status.
const lastReport = 5 * time.Second

// newShutdown makes what ends the pods before the machine shuts down.
func (k *Kubelet) newShutdown(p *parts, recorder record.EventRecorder) *shutdown.Manager {
	c := &k.config
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)}
	return shutdown.New(shutdown.Config{
		Periods: shutdown.Periods(c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods, c.ShutdownByPodPriority),
		Pods:    p.pods, Clock: k.clock, Changed: p.node.ReportNow,
		Event: func(kind, reason, message string) { recorder.Event(ref, kind, reason, message) },
	})
}

// awaitShutdown waits until the machine begins to shut down, and ends the pods. It returns errShutdown then, or nil
// when ctx ends before.
func (k *Kubelet) awaitShutdown(ctx context.Context, p *parts) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.config.ShuttingDown: // nil is never
	}
	p.shutdown.Run(ctx)
	ctx, cancel := context.WithTimeout(ctx, lastReport)
	defer cancel()
	p.node.Flush(ctx)
	return errShutdown
}
