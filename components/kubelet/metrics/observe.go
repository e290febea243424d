package metrics

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/plan"
)

// left is the time until a certificate expires, in seconds; infinite where there is none, as upstream tells it.
func left(expires, now time.Time) float64 {
	if expires.IsZero() {
		return math.Inf(1)
	}
	return expires.Sub(now).Seconds()
}

// ContainerType is upstream's name for what a container of a pod is.
func ContainerType(pod *v1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return "ephemeral_container"
		}
	}
	if plan.IsInit(pod, name) {
		return "init_container"
	}
	return "container"
}

// ContainerStarted counts an attempt to start a container, and the reason if it failed.
func (m *Metrics) ContainerStarted(kind, failure string) {
	if m == nil {
		return
	}
	m.startedContainers.WithLabelValues(kind).Inc()
	if failure != "" {
		m.startedContainerErrors.WithLabelValues(kind, failure).Inc()
	}
}

// PodStarted counts an attempt to start the sandbox of a pod.
func (m *Metrics) PodStarted(err error) {
	if m == nil {
		return
	}
	m.startedPods.Inc()
	if err != nil {
		m.startedPodErrors.Inc()
	}
}

// Running takes in that a pod runs which did not before; seen is when the kubelet first saw it.
func (m *Metrics) Running(pod *v1.Pod, seen, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	pulling := m.pulling[pod.UID]
	delete(m.pulling, pod.UID)
	m.mu.Unlock()
	m.podStart.Observe(now.Sub(seen).Seconds())
	created := pod.CreationTimestamp.Time
	if created.IsZero() { // a static pod
		return
	}
	total := max(now.Sub(created), 0)
	m.podStartTotal.Observe(total.Seconds())
	if len(pod.Spec.InitContainers) == 0 {
		m.podStartSLI.Observe(max(total-pulling, 0).Seconds())
	}
}

// WorkerStarted takes in how long a pod waited for its worker.
func (m *Metrics) WorkerStarted(waited time.Duration) {
	if m == nil {
		return
	}
	m.podWorkerStart.Observe(waited.Seconds())
}

// Synced takes in how long it took to sync a pod: "create", "sync" or "terminating".
func (m *Metrics) Synced(operation string, took time.Duration) {
	if m == nil {
		return
	}
	m.podWorker.WithLabelValues(operation).Observe(took.Seconds())
}

// Relisted takes in a list of all containers, which began at and ended at now; last is when the one before began, zero
// for the first.
func (m *Metrics) Relisted(last, at, now time.Time) {
	if m == nil {
		return
	}
	m.relistDuration.Observe(now.Sub(at).Seconds())
	if !last.IsZero() {
		m.relistInterval.Observe(at.Sub(last).Seconds())
	}
	m.relistSeen.Set(float64(now.Unix()))
}

// Evicted counts a pod that was evicted for a signal, such as memory.available.
func (m *Metrics) Evicted(signal string) {
	m.evictions.WithLabelValues(signal).Inc()
}

// Preempted counts a pod that had to end for a critical one that needs the resource.
func (m *Metrics) Preempted(resource string) {
	if m == nil {
		return
	}
	m.preemptions.WithLabelValues(resource).Inc()
}

// Pulled takes in how long it took to pull an image of a size in bytes for a pod.
func (m *Metrics) Pulled(uid types.UID, size int64, took time.Duration) {
	m.mu.Lock()
	m.pulling[uid] += took
	m.mu.Unlock()
	m.pulls.WithLabelValues(pullSize(size)).Observe(took.Seconds())
}

// pullSize is upstream's bucket of an image's size.
func pullSize(bytes int64) string {
	const mb, gb = int64(1) << 20, int64(1) << 30
	for _, b := range []struct {
		below int64
		name  string
	}{
		{10 * mb, "0-10MB"}, {100 * mb, "10MB-100MB"}, {500 * mb, "100MB-500MB"}, {gb, "500MB-1GB"}, {5 * gb, "1GB-5GB"},
		{10 * gb, "5GB-10GB"}, {20 * gb, "10GB-20GB"}, {30 * gb, "20GB-30GB"}, {40 * gb, "30GB-40GB"},
		{60 * gb, "40GB-60GB"}, {100 * gb, "60GB-100GB"},
	} {
		if bytes < b.below {
			return b.name
		}
	}
	return "GT100GB"
}

// Operation takes in one operation of the container engine. That its caller gave up is no error of the engine.
func (m *Metrics) Operation(name string, took time.Duration, err error) {
	m.operations.WithLabelValues(name).Inc()
	m.operationDuration.WithLabelValues(name).Observe(took.Seconds())
	if err != nil && !errors.Is(err, context.Canceled) {
		m.operationErrors.WithLabelValues(name).Inc()
	}
}

// Cgroup takes in how long it took to create, update or destroy a control group.
func (m *Metrics) Cgroup(operation string, took time.Duration) {
	if m == nil {
		return
	}
	m.cgroupDuration.WithLabelValues(operation).Observe(took.Seconds())
}

// Request takes in the begin of a request to the kubelet, and returns what takes in its end.
func (m *Metrics) Request(method, path, server string, longRunning bool) func(took time.Duration) {
	long := "false"
	if longRunning {
		long = "true"
	}
	m.httpRequests.WithLabelValues(method, path, server, long).Inc()
	inflight := m.httpInflight.WithLabelValues(method, path, server, long)
	inflight.Inc()
	return func(took time.Duration) {
		inflight.Dec()
		m.httpDuration.WithLabelValues(method, path, server, long).Observe(took.Seconds())
	}
}

// Probed takes in the result of a probe ("Liveness", "Readiness" or "Startup"): "successful", "failed" or "unknown".
func (m *Metrics) Probed(pod *v1.Pod, container, kind, result string, took time.Duration) {
	m.probes.WithLabelValues(kind, result, container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	m.probeDuration.WithLabelValues(kind, container, pod.Name, pod.Namespace).Observe(took.Seconds())
}

// Forget drops the series of a pod of which nothing is left.
func (m *Metrics) Forget(pod types.NamespacedName, uid types.UID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	delete(m.pulling, uid)
	m.mu.Unlock()
	m.probes.DeletePartialMatch(prometheus.Labels{"pod_uid": string(uid)})
	m.probeDuration.DeletePartialMatch(prometheus.Labels{"pod": pod.Name, "namespace": pod.Namespace})
}
