package eviction

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/spec"
)

// Pods are those of the node.
type Pods interface {
	// Active returns the pods that were admitted and have not ended. They are not to be changed.
	Active() []*v1.Pod
	// Usage measures a pod.
	Usage(ctx context.Context, pod *v1.Pod) (*Usage, error)
	// Evict ends a pod within grace.
	Evict(pod *v1.Pod, message string, grace time.Duration)
}

// Config is what the node is kept from running out of.
type Config struct {
	Thresholds []Threshold
	Transition time.Duration
	// MaxGrace is what a pod gets at most to end for a soft threshold.
	MaxGrace time.Duration
	Levels   func() (map[Signal]Level, error)
	Pods     Pods
	// Reclaim gives back space of the node's disks that no pod needs, each after the other, before a pod is evicted
	// for it.
	Reclaim []func(context.Context) error
	Clock   clock.WithTicker
	// Event tells about the node.
	Event func(kind, reason, message string)
	// Changed is called when the node's conditions are others than before.
	Changed func()
	// Evicted is called for each pod that was evicted; nil if none is counted.
	Evicted func(Signal)
}

// Manager watches the signals and evicts pods. It is safe for concurrent use.
type Manager struct {
	Config
	state State

	mu         sync.Mutex
	conditions []v1.NodeConditionType
}

// New makes a manager that looks at nothing before Run.
func New(config Config) *Manager {
	return &Manager{Config: config, state: State{Thresholds: config.Thresholds, Transition: config.Transition}}
}

const (
	// period is how often the signals are read, as upstream's.
	period = 10 * time.Second
	// hardGrace is what a pod gets to end for a hard threshold.
	hardGrace = time.Second
	// cleanupTimeout bounds how long no other pod is evicted because one is ending.
	cleanupTimeout = 30 * time.Second
)

// Conditions are those that the node has, sorted.
func (m *Manager) Conditions() []v1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// Run watches until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	ticker := m.Clock.NewTicker(period)
	defer ticker.Stop()
	var ending *v1.Pod
	var until time.Time
	for {
		if ending == nil || m.Clock.Now().After(until) || !m.active(ending) {
			if ending = m.sync(ctx); ending != nil {
				until = m.Clock.Now().Add(cleanupTimeout)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (m *Manager) active(pod *v1.Pod) bool {
	return slices.ContainsFunc(m.Pods.Active(), func(p *v1.Pod) bool { return p.UID == pod.UID })
}

// sync looks once, and evicts one pod at most, which it returns.
func (m *Manager) sync(ctx context.Context) *v1.Pod {
	levels, err := m.Levels()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Eviction manager: failed to get summary stats")
	}
	conditions, threshold := m.state.Update(levels, m.Clock.Now())
	m.mu.Lock()
	changed := !slices.Equal(m.conditions, conditions)
	m.conditions = conditions
	m.mu.Unlock()
	if changed {
		m.Changed()
	}
	if threshold == nil {
		return nil
	}
	name := threshold.Signal.resource()
	m.Event(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(name))
	if m.reclaimed(ctx, threshold.Signal) {
		return nil
	}
	candidates := m.candidates(ctx)
	rank(candidates, name)
	for i := range candidates {
		c := &candidates[i]
		if spec.Critical(c.Pod) {
			continue
		}
		grace := hardGrace
		if threshold.Grace > 0 {
			grace = max(m.MaxGrace, hardGrace)
		}
		m.Pods.Evict(c.Pod, message(c, threshold, levels[threshold.Signal]), grace)
		if m.Evicted != nil {
			m.Evicted(threshold.Signal)
		}
		return c.Pod
	}
	klog.FromContext(ctx).Error(nil, "Eviction manager: unable to evict any pods from the node")
	return nil
}

// reclaimed frees what the node itself holds of a signal, and tells whether that was enough.
func (m *Manager) reclaimed(ctx context.Context, signal Signal) bool {
	if signal.condition() != v1.NodeDiskPressure || len(m.Reclaim) == 0 {
		return false
	}
	for _, reclaim := range m.Reclaim {
		if err := reclaim(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Eviction manager: unexpected error when attempting to reduce resource pressure",
				"resourceName", signal.resource())
		}
	}
	levels, err := m.Levels()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Eviction manager: failed to get summary stats")
		return false
	}
	return m.state.relieved(levels)
}

func (m *Manager) candidates(ctx context.Context) []Candidate {
	var all []Candidate
	for _, pod := range m.Pods.Active() {
		usage, err := m.Pods.Usage(ctx, pod)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Pod can't be measured", "pod", klog.KObj(pod))
			usage = nil
		}
		all = append(all, Candidate{Pod: pod, Usage: usage})
	}
	return all
}
