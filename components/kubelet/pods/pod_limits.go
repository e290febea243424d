package pods

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
)

// burstableShares is the weight of the burstable pods among the classes: that of what they request together.
func burstableShares(pods []*v1.Pod) int64 {
	var sum resource.Quantity
	for _, pod := range pods {
		if status.QOS(pod) == v1.PodQOSBurstable {
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			sum.Add(requests[v1.ResourceCPU])
		}
	}
	return spec.CPUShares(sum)
}

// ShareCPUs gives the control group of the burstable pods the weight that they have now.
func (m *Manager) ShareCPUs() error {
	m.sharing.Lock() // else what was added up first could be written last
	defer m.sharing.Unlock()
	return m.Cgroups.SetBurstable(burstableShares(m.admission.others("")))
}

// nextLimits is what the pod's control group, whose limits are to become want, gets now, and whether that is to be
// written. While containers are resized it has what they need before and afterwards.
func (s *state) nextLimits(want cgroups.Limits, containersLeft bool) (cgroups.Limits, bool) {
	r := &s.resize
	if !s.sandboxRuns() || s.ending != nil {
		return want, false
	}
	next, own := want, r.sandbox == s.observed.Sandbox().ID
	if containersLeft && own {
		next = want.Widest(r.limits)
	}
	return next, !own || r.limits != next
}

// limited tells that the pod's control group has the limits that it is to have. The first time they can't be set is no
// failure of a resize.
func (s *state) limited(want cgroups.Limits) bool {
	r := &s.resize
	return !s.sandboxRuns() || s.ending != nil || r.sandbox != s.observed.Sandbox().ID || r.limits == want
}

// setLimits begins to give the pod's control group what it was allocated, once for each observation, and tells whether
// that is under way: what is to be done is decided afterwards.
func (w *worker) setLimits(ctx context.Context, pod *v1.Pod, wanted map[string]runtime.Resources) bool {
	s, r := &w.state, &w.state.resize
	if s.settingLimits || wanted == nil {
		return s.settingLimits && s.ending == nil
	}
	next, due := s.nextLimits(w.Builder.PodLimits(pod), s.containersLeft(pod, wanted))
	if !due {
		r.unset = false
		return false
	}
	if r.tried == s.observations {
		return false
	}
	r.tried, s.settingLimits = s.observations, true
	sandbox := s.observed.Sandbox().ID
	w.begin(func(func(result)) result {
		began := w.Clock.Now()
		err := errors.Join(w.Cgroups.Set(pod.UID, status.QOS(pod), next),
			w.Cgroups.SetHugePages(pod.UID, status.QOS(pod), spec.HugePages(pod)), w.m.ShareCPUs())
		w.Metrics.Cgroup("update", w.Clock.Since(began))
		return limitsSet{pod, sandbox, next, err}
	})
	return true
}

// limitsSet tells that the pod's control group has other limits, or why not.
type limitsSet struct {
	pod     *v1.Pod
	sandbox string
	limits  cgroups.Limits
	err     error
}

func (m limitsSet) apply(ctx context.Context, w *worker) {
	s, r := &w.state, &w.state.resize
	s.settingLimits, s.decide = false, true
	if m.err == nil {
		r.sandbox, r.limits, r.unset, r.tried = m.sandbox, m.limits, false, 0
		return
	}
	klog.FromContext(ctx).Error(m.err, "Limits of the pod can't be set, will be retried", "pod", klog.KObj(m.pod))
	if r.sandbox == m.sandbox { // else it is no resize
		w.resizeFailed(m.pod, m.err, w.Clock.Now())
		r.unset = true
	}
}
