package commit

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Waiting are the pods that wait for permission. It is safe for concurrent use.
type Waiting struct {
	clock clock.WithDelayedExecution

	mu   sync.RWMutex
	pods map[types.UID]*WaitingPod
}

// NewWaiting returns an empty set.
func NewWaiting(c clock.WithDelayedExecution) *Waiting {
	return &Waiting{clock: c, pods: map[types.UID]*WaitingPod{}}
}

// WaitingPod is a pod that waits. It is safe for concurrent use.
type WaitingPod struct {
	pod     *v1.Pod
	decided chan *Status // gets one status

	mu      sync.Mutex
	done    bool
	pending map[string]clock.Timer // by plug-in
}

func (w *Waiting) add(pod *v1.Pod, waits map[string]time.Duration) {
	p := &WaitingPod{pod: pod, decided: make(chan *Status, 1), pending: map[string]clock.Timer{}}
	p.mu.Lock()
	for plugin, wait := range waits {
		p.pending[plugin] = w.clock.AfterFunc(wait, func() {
			message := fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", wait, plugin)
			go p.Reject(plugin, message) // a clock may hold its lock, which stopping the other timers takes
		})
	}
	p.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.UID] = p
}

func (w *Waiting) remove(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// Get returns a pod that waits, or nil.
func (w *Waiting) Get(uid types.UID) *WaitingPod {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pods[uid]
}

// Each calls visit for every pod that waits; visit may allow and reject them.
func (w *Waiting) Each(visit func(*WaitingPod)) {
	w.mu.RLock()
	pods := slices.Collect(maps.Values(w.pods))
	w.mu.RUnlock()
	for _, p := range pods {
		visit(p)
	}
}

// Reject refuses a pod that waits, on no plug-in's behalf; false if it doesn't wait.
func (w *Waiting) Reject(uid types.UID) bool {
	p := w.Get(uid)
	return p != nil && p.Reject("", "removed")
}

// GetPod returns the pod, which must not be changed.
func (p *WaitingPod) GetPod() *v1.Pod { return p.pod }

// GetPendingPlugins names the plug-ins that have not allowed the pod yet.
func (p *WaitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.pending))
}

// Allow ends the wait for one plug-in, and the pod's if it was the last one.
func (p *WaitingPod) Allow(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if timer, ok := p.pending[plugin]; ok {
		timer.Stop()
		delete(p.pending, plugin)
	}
	if len(p.pending) == 0 {
		p.decide(nil)
	}
}

// Reject refuses the pod; false if that was decided already.
func (p *WaitingPod) Reject(plugin, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(&Status{Plugin: plugin, Reasons: []string{message}})
}

// Preempt sends the pod back to the queue without a refusal; false if its fate was decided already.
func (p *WaitingPod) Preempt(plugin, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(&Status{Plugin: plugin, Reasons: []string{message}, Preempted: true})
}

// decide ends the wait; the caller holds mu.
func (p *WaitingPod) decide(status *Status) bool {
	if p.done {
		return false
	}
	p.done = true
	for _, timer := range p.pending {
		timer.Stop()
	}
	p.decided <- status
	return true
}
