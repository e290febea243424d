package metrics

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/static"
)

// podFigures count the pods of the node when they are asked for.
type podFigures struct {
	list                                   func() []*v1.Pod
	pods, containers, desired, active, own *prometheus.Desc
	mirrors                                *prometheus.Desc
}

// Count adds the numbers of pods and containers that list knows when they are asked for.
func (m *Metrics) Count(list func() []*v1.Pod) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubelet_"+name, help, labels, nil)
	}
	m.Registry.MustRegister(&podFigures{
		list:       list,
		pods:       desc("running_pods", "Number of pods that have a running pod sandbox"),
		containers: desc("running_containers", "Number of containers currently running", "container_state"),
		desired: desc("desired_pods", "The number of pods the kubelet is being instructed to run. "+
			"static is true if the pod is not from the apiserver.", "static"),
		active: desc("active_pods", "The number of pods the kubelet considers active and which are being considered "+
			"when admitting new pods. static is true if the pod is not from the apiserver.", "static"),
		own: desc("working_pods", "Number of pods the kubelet is actually running, broken down by lifecycle phase, "+
			"whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static.",
			"lifecycle", "config", "static"),
		mirrors: desc("mirror_pods", "The number of mirror pods the kubelet will try to create "+
			"(one per admitted static pod)"),
	})
}

// Describe implements prometheus.Collector.
func (f *podFigures) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.pods, f.containers, f.desired, f.active, f.own, f.mirrors} {
		descriptions <- d
	}
}

// podCounts are how many pods and containers there are; the index of pairs is whether pods are static.
type podCounts struct {
	running                          int
	containers                       map[string]int // by state
	desired, active, syncing, ending map[string]int // by whether they are static
}

func count(pods []*v1.Pod) podCounts {
	c := podCounts{containers: map[string]int{"running": 0, "exited": 0}, desired: pair(), active: pair(),
		syncing: pair(), ending: pair()}
	for _, pod := range pods {
		static := strconv.FormatBool(static.Is(pod))
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		c.desired[static]++
		if !ended {
			c.active[static]++
		}
		if pod.DeletionTimestamp != nil && !ended {
			c.ending[static]++
		} else {
			c.syncing[static]++
		}
		runs := false
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
			pod.Status.EphemeralContainerStatuses) {
			switch {
			case s.State.Running != nil:
				c.containers["running"]++
				runs = true
			case s.State.Terminated != nil:
				c.containers["exited"]++
			}
		}
		if runs || !ended && len(pod.Status.PodIPs) > 0 {
			c.running++
		}
	}
	return c
}

func pair() map[string]int { return map[string]int{"false": 0, "true": 0} }

// Collect implements prometheus.Collector.
func (f *podFigures) Collect(metrics chan<- prometheus.Metric) {
	c := count(f.list())
	tell := func(desc *prometheus.Desc, n int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	tell(f.pods, c.running)
	for state, n := range c.containers {
		tell(f.containers, n, state)
	}
	for static := range pair() {
		tell(f.desired, c.desired[static], static)
		tell(f.active, c.active[static], static)
		tell(f.own, c.syncing[static], "sync", "desired", static)
		tell(f.own, c.ending[static], "terminating", "desired", static)
	}
	tell(f.mirrors, c.active["true"])
}
