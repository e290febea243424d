package pods

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
)

// limitPod gives the pod's control group what it was allocated, and tells that it has that. While containers are resized it
// has what they need before and afterwards.
func (w *worker) limitPod(pod *v1.Pod, observed *runtime.Pod, containersLeft bool, now time.Time) bool {
	sandbox := observed.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running || w.ending != nil {
		return true
	}
	r := &w.resize
	want := w.m.Builder.PodLimits(pod)
	next := want
	if containersLeft && r.sandbox == sandbox.ID {
		next = want.Widest(r.limits)
	}
	if r.sandbox == sandbox.ID && r.limits == next {
		r.unset = false
		return next == want
	}
	if err := w.m.Cgroups.Set(pod.UID, status.QOS(pod), next); err != nil {
		w.logger.Error(err, "Limits of the pod can't be set, will be retried", "pod", klog.KObj(pod))
		if r.sandbox != sandbox.ID {
			return true // it is no resize
		}
		w.resizeFailed(pod, err, now)
		r.unset = true
		return false
	}
	r.sandbox, r.limits, r.unset = sandbox.ID, next, false
	return next == want
}

// without is a list of which the overhead of a pod, which comes on top of what it asks for, is taken.
func without(list, overhead v1.ResourceList) v1.ResourceList {
	out := list.DeepCopy()
	for name, more := range overhead {
		if whole, ok := out[name]; ok {
			whole.Sub(more)
			out[name] = whole
		}
	}
	return out
}
