package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/controllers/pods"
)

// PodMetric is the value that a metric has for one pod.
type PodMetric struct {
	// Timestamp is the end of the Window over which the value was taken.
	Timestamp time.Time
	Window    time.Duration
	// Value is in thousandths of the metric's unit.
	Value int64
}

var (
	errNoPods    = errors.New("no pods returned by selector while calculating replica count")
	errNoSamples = errors.New("did not receive metrics for targeted pods (pods might be unready)")
	errNoKnown   = errors.New("no metrics returned matched known pods")
)

// workload is the pods of an autoscaler's target, and what the decision about their number starts from.
type workload struct {
	pods      []*v1.Pod
	replicas  int32 // that the target asks for
	now       time.Time
	tolerance tolerance
	options   Options
}

// usage is the mean over all pods that have a sample.
type usage struct {
	value   int64 // in thousandths
	percent int32 // of the request
	ratio   float64
}

// meter computes the usage from samples.
type meter struct {
	of func(samples map[string]PodMetric) (usage, error)
	// assumed is the value that a pod without a sample counts with before scaling down.
	assumed func(pod string) int64
}

// plain compares the mean with a target, in thousandths.
func plain(target int64) meter {
	return meter{
		of: func(samples map[string]PodMetric) (usage, error) {
			var sum int64
			for _, s := range samples {
				sum += s.Value
			}
			mean := sum / int64(len(samples))
			return usage{value: mean, ratio: float64(mean) / float64(target)}, nil
		},
		assumed: func(string) int64 { return target },
	}
}

// ofRequests compares the usage with a target in percent of the requests, which are in thousandths by pod.
func ofRequests(requests map[string]int64, target int32) meter {
	return meter{
		of: func(samples map[string]PodMetric) (usage, error) {
			var used, requested, count int64
			for pod, s := range samples {
				if request, known := requests[pod]; known {
					used, requested, count = used+s.Value, requested+request, count+1
				}
			}
			if requested == 0 {
				return usage{}, errNoKnown
			}
			percent := int32(used * 100 / requested)
			return usage{value: used / count, percent: percent, ratio: float64(percent) / float64(target)}, nil
		},
		assumed: func(pod string) int64 { return requests[pod] * int64(max(100, target)) / 100 },
	}
}

// size computes how many pods bring the usage to its target
// (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details). Pods without samples,
// and pods that are not ready, count so that they make the change smaller and never turn it around. The resource is
// empty for metrics of another kind.
func (w workload) size(samples map[string]PodMetric, name v1.ResourceName, m meter) (int32, usage, error) {
	groups := w.group(samples, name)
	counted := groups.sampled
	if len(counted) == 0 {
		return 0, usage{}, errNoSamples
	}
	first, err := m.of(counted)
	if err != nil {
		return 0, usage{}, err
	}
	withUnready := len(groups.unready) > 0 && first.ratio > 1
	if !withUnready && len(groups.missing) == 0 {
		if w.tolerance.covers(first.ratio) {
			return w.replicas, first, nil
		}
		return ceil(first.ratio * float64(groups.ready)), first, nil
	}
	for _, pod := range groups.missing {
		if first.ratio < 1 {
			counted[pod] = PodMetric{Value: m.assumed(pod)}
		} else if first.ratio > 1 {
			counted[pod] = PodMetric{}
		}
	}
	if withUnready {
		for _, pod := range groups.unready {
			counted[pod] = PodMetric{}
		}
	}
	second, err := m.of(counted)
	if err != nil {
		return 0, usage{}, err
	}
	proposed := ceil(second.ratio * float64(len(counted)))
	if w.tolerance.covers(second.ratio) || opposite(first.ratio, second.ratio) ||
		(second.ratio < 1 && proposed > w.replicas) || (second.ratio > 1 && proposed < w.replicas) {
		return w.replicas, first, nil
	}
	return proposed, first, nil
}

// opposite tells whether two ratios ask for changes in different directions.
func opposite(a, b float64) bool { return (a < 1 && b > 1) || (a > 1 && b < 1) }

// ceil rounds up and stays within the range of a number of replicas.
func ceil(x float64) int32 {
	if x = math.Ceil(x); x >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(max(x, math.MinInt32))
}

// groups are the pods by what their samples are good for.
type groups struct {
	ready            int
	unready, missing []string
	// sampled are the samples without those of pods that are leaving or not ready; it belongs to the caller.
	sampled map[string]PodMetric
}

func (w workload) group(samples map[string]PodMetric, name v1.ResourceName) groups {
	g := groups{sampled: make(map[string]PodMetric, len(samples))}
	for pod, s := range samples {
		g.sampled[pod] = s
	}
	for _, pod := range w.pods {
		s, found := samples[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pods.Ended(pod):
			delete(g.sampled, pod.Name)
		case pod.Status.Phase == v1.PodPending:
			g.unready = append(g.unready, pod.Name)
			delete(g.sampled, pod.Name)
		case !found:
			g.missing = append(g.missing, pod.Name)
		case name == v1.ResourceCPU && w.starting(pod, s):
			g.unready = append(g.unready, pod.Name)
			delete(g.sampled, pod.Name)
		default:
			g.ready++
		}
	}
	return g
}

// starting tells whether the CPU usage of a pod says more about its start than about its load.
func (w workload) starting(pod *v1.Pod, s PodMetric) bool {
	ready := pods.Condition(pod, v1.PodReady)
	if ready == nil || pod.Status.StartTime == nil {
		return true
	}
	start, changed := pod.Status.StartTime.Time, ready.LastTransitionTime.Time
	if start.Add(w.options.CPUInitializationPeriod).After(w.now) {
		return ready.Status == v1.ConditionFalse || s.Timestamp.Before(changed.Add(s.Window))
	}
	return ready.Status == v1.ConditionFalse && start.Add(w.options.InitialReadinessDelay).After(changed)
}

// readyPods is the number of pods that run and are ready.
func (w workload) readyPods() (int, error) {
	if len(w.pods) == 0 {
		return 0, errNoPods
	}
	return len(pods.Filter(w.pods, func(pod *v1.Pod) bool {
		return pod.Status.Phase == v1.PodRunning && pods.Ready(pod)
	})), nil
}

// requests returns the request of each pod, in thousandths: that of the container if one is named, else that of the
// pod, which is the sum over its containers unless the pod has requests of its own (KEP-2837).
func (w workload) requests(name v1.ResourceName, container string) (map[string]int64, error) {
	all := make(map[string]int64, len(w.pods))
	for _, pod := range w.pods {
		request, err := requestOf(pod, name, container)
		if err != nil {
			return nil, err
		}
		all[pod.Name] = request
	}
	return all, nil
}

func requestOf(pod *v1.Pod, name v1.ResourceName, container string) (int64, error) {
	if container == "" && resource.IsPodLevelRequestsSet(pod) {
		request, ok := resource.PodRequests(pod, resource.PodResourcesOptions{})[name]
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", name, pod.Name)
		}
		return request.MilliValue(), nil
	}
	var sum int64
	found := false
	for _, c := range lasting(pod) {
		if container != "" && container != c.Name {
			continue
		}
		request, ok := c.Resources.Requests[name]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", name, c.Name, pod.Name)
		}
		sum, found = sum+request.MilliValue(), true
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return sum, nil
}

// lasting are the containers that run as long as the pod does: sidecars are among them.
func lasting(pod *v1.Pod) []v1.Container {
	all := append([]v1.Container{}, pod.Spec.Containers...)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}
