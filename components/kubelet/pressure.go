package kubelet

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/eviction"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// pressure tells what the node lacks.
func (p *parts) pressure() []v1.NodeConditionType {
	if p.eviction == nil {
		return nil
	}
	return p.eviction.Conditions()
}

// withheld keeps pods from what the hard thresholds leave free; nil where nothing is evicted.
func (k *Kubelet) withheld(simulated runtime.Simulated) func(v1.ResourceList) v1.ResourceList {
	thresholds, err := eviction.Parse(k.config.eviction())
	if simulated.Files || err != nil { // an error ends the kubelet's start where the manager is made
		return nil
	}
	return func(capacity v1.ResourceList) v1.ResourceList { return eviction.Withheld(thresholds, capacity) }
}

// newEviction makes what keeps the node from running out of memory, disk and process IDs.
func (k *Kubelet) newEviction(p *parts, recorder record.EventRecorder) (*eviction.Manager, error) {
	thresholds, err := eviction.Parse(k.config.eviction())
	if err != nil {
		return nil, err
	}
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)}
	return eviction.New(eviction.Config{
		Thresholds: thresholds, Transition: k.config.EvictionTransition,
		MaxGrace: time.Duration(k.config.EvictionMaxGrace) * time.Second,
		Levels: eviction.Machine{Root: k.config.RootDir, Proc: "/proc", Cgroup: cgroupMount,
			Bounds: p.node.Bounds}.Levels,
		Pods: p.pods, Clock: k.clock,
		Event:   func(kind, reason, message string) { recorder.Event(ref, kind, reason, message) },
		Changed: p.node.ReportNow,
		Reclaim: []func(context.Context) error{p.pods.ReclaimContainers, p.images.DeleteUnused},
		Evicted: func(signal eviction.Signal) { p.metrics.Evicted(string(signal)) },
	}), nil
}
