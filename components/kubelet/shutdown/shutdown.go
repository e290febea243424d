// Package shutdown ends a node's pods in order before its machine shuts down
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#graceful-node-shutdown).
package shutdown

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"
)

// criticalPriority is that of pods the cluster can't do without, or a higher one.
const criticalPriority = 2_000_000_000

// Period is how long pods of a priority, or of a higher one up to that of the next period, get to end.
type Period struct {
	Priority int32
	Grace    time.Duration
}

// Periods returns those that a KubeletConfiguration asks for, by priority, lowest first; none if it asks for no
// graceful shutdown. byPriority goes before total, of which the last part is for critical pods.
func Periods(total, critical time.Duration, byPriority []kubeletconfig.ShutdownGracePeriodByPodPriority) []Period {
	var periods []Period
	for _, p := range byPriority {
		periods = append(periods, Period{p.Priority, time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	if len(periods) == 0 && total > 0 {
		periods = []Period{{0, total - critical}, {criticalPriority, critical}}
	}
	slices.SortFunc(periods, func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	return periods
}

// group assigns pods to periods. Pods below the lowest priority are in its period.
func group(pods []*v1.Pod, periods []Period) [][]*v1.Pod {
	groups := make([][]*v1.Pod, len(periods))
	for _, pod := range pods {
		var priority int32
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		at := 0
		for i := range periods {
			if periods[i].Priority <= priority {
				at = i
			}
		}
		groups[at] = append(groups[at], pod)
	}
	return groups
}

// Pods are those of the node.
type Pods interface {
	// Active returns the pods that were admitted and have not ended. They are not to be changed.
	Active() []*v1.Pod
	// Terminate ends a pod within grace, or its own grace period if that is shorter.
	Terminate(pod *v1.Pod, grace time.Duration)
	// Ended tells that nothing of the pod runs, and that the API server knows.
	Ended(uid types.UID) bool
}

// Config is what a shutdown is made of.
type Config struct {
	Periods []Period
	Pods    Pods
	Clock   clock.WithTicker
	// Event tells about the node.
	Event func(kind, reason, message string)
	// Changed is called when the shutdown begins.
	Changed func()
}

// Manager carries a shutdown out. It is safe for concurrent use.
type Manager struct {
	Config
	begun atomic.Bool
}

// New makes a manager of a node that is not shutting down.
func New(config Config) *Manager { return &Manager{Config: config} }

// Err is why the node is not ready, nil before the shutdown.
func (m *Manager) Err() error {
	if m.begun.Load() {
		return errors.New("node is shutting down")
	}
	return nil
}

// pollPeriod is how often it is looked whether pods have ended.
const pollPeriod = 100 * time.Millisecond

// Run ends all pods, and returns when they have ended or had their time, or ctx ends. Without periods it returns at
// once: nothing is to end gracefully.
func (m *Manager) Run(ctx context.Context) {
	if len(m.Periods) == 0 {
		return
	}
	m.begun.Store(true)
	m.Event(v1.EventTypeNormal, "Shutdown", "Shutdown manager detected shutdown event")
	m.Changed()
	for i, pods := range group(m.Pods.Active(), m.Periods) {
		if len(pods) == 0 {
			continue
		}
		klog.FromContext(ctx).Info("Shutdown manager is ending pods", "priority", m.Periods[i].Priority,
			"gracePeriod", m.Periods[i].Grace, "pods", len(pods))
		for _, pod := range pods {
			m.Pods.Terminate(pod, m.Periods[i].Grace)
		}
		m.wait(ctx, pods, m.Periods[i].Grace)
	}
}

// wait returns when the pods have ended, or after grace.
func (m *Manager) wait(ctx context.Context, pods []*v1.Pod, grace time.Duration) {
	late := m.Clock.NewTimer(grace)
	defer late.Stop()
	ticker := m.Clock.NewTicker(pollPeriod)
	defer ticker.Stop()
	running := func(pod *v1.Pod) bool { return !m.Pods.Ended(pod.UID) }
	for slices.ContainsFunc(pods, running) {
		select {
		case <-ctx.Done():
			return
		case <-late.C():
			klog.FromContext(ctx).Info("Shutdown manager: pods did not end in time", "gracePeriod", grace)
			return
		case <-ticker.C():
		}
	}
}
