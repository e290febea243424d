package pods

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/components/kubelet/status"
)

// admission allocates the node's resources to its pods, in the order in which they request them. It does no I/O and
// does not change its arguments. It is safe for concurrent use.
type admission struct {
	mu       sync.Mutex
	admitted map[types.UID]*admittedPod
}

// admittedPod is an admitted pod with its allocation.
type admittedPod struct {
	pod      *v1.Pod // newest version
	resizing bool    // changes of its resources may be decided
	standing
}

// standing is what was decided about the resources of a pod.
type standing struct {
	allocation *allocation
	// granted is the version of the pod whose resources were allocated last while it ran, nil if none was.
	granted *v1.Pod
	// pending is why the newest version's resources are not allocated, nil if they are, or it is not decided yet.
	pending *v1.PodCondition
}

func newAdmission() *admission { return &admission{admitted: map[types.UID]*admittedPod{}} }

// admit admits the pod to the node, or returns why it is rejected.
func (a *admission) admit(pod *v1.Pod, now standing, node *v1.Node) *rejection {
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := refuse(pod, node, a.othersThan(pod.UID)); why != nil {
		return why
	}
	a.admitted[pod.UID] = &admittedPod{pod: pod, standing: now}
	return nil
}

// adopt admits a pod without a check: it runs already, or the node is not known.
func (a *admission) adopt(pod *v1.Pod, now standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted[pod.UID] = &admittedPod{pod: pod, standing: now}
}

// release forgets an admitted pod, if it is one.
func (a *admission) release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.admitted, uid)
}

// others returns the admitted pods except uid, with their allocated resources.
func (a *admission) others(uid types.UID) []*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.othersThan(uid)
}

// othersThan is others with the lock held.
func (a *admission) othersThan(uid types.UID) []*v1.Pod {
	var pods []*v1.Pod
	for other, c := range a.admitted {
		if other != uid {
			pods = append(pods, c.counted())
		}
	}
	return pods
}

// counted returns the pod with its allocated resources.
func (c *admittedPod) counted() *v1.Pod {
	if c.allocation.matches(c.pod) {
		return c.pod
	}
	pod := c.pod.DeepCopy()
	c.allocation.apply(pod)
	return pod
}

// update sets the newest version of a pod, and whether resizes of it may be decided. It reports whether a resize is to
// be decided now: an infeasible one is not decided again.
func (a *admission) update(pod *v1.Pod, resizing bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.admitted[pod.UID]
	if c == nil {
		return false
	}
	c.pod, c.resizing = pod, resizing
	if c.allocation.matches(pod) {
		c.pending = nil
		return false
	}
	hopeless := c.pending != nil && c.pending.Reason == v1.PodReasonInfeasible &&
		c.pending.ObservedGeneration == pod.Generation
	return resizing && !hopeless
}

// standing returns the decisions about a pod; false if it is not admitted.
func (a *admission) standing(uid types.UID) (standing, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.admitted[uid]; c != nil {
		return c.standing, true
	}
	return standing{}, false
}

// deferred returns the pods whose resize waits for other pods to release resources.
func (a *admission) deferred() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var uids []types.UID
	for uid, c := range a.admitted {
		if c.pending != nil && c.pending.Reason == v1.PodReasonDeferred {
			uids = append(uids, uid)
		}
	}
	return uids
}

// resize decides all pending resizes in the order of priority of KEP-1287, and returns the pods whose decision changed.
func (a *admission) resize(node *v1.Node, now time.Time) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []candidate
	for _, c := range a.admitted {
		if c.resizing && !c.allocation.matches(c.pod) {
			list = append(list, c.candidate())
		}
	}
	slices.SortFunc(list, compareCandidates)
	var changed []types.UID
	for i := range list {
		c := a.admitted[list[i].pod.UID]
		reason, message := refuseResize(c.pod, node, a.othersThan(c.pod.UID))
		if c.decide(reason, message, now) {
			changed = append(changed, c.pod.UID)
		}
	}
	return changed
}

// decide stores why the pod's resize is not allocated, or that it is, and reports whether that changed.
func (c *admittedPod) decide(reason, message string, now time.Time) bool {
	pod, old := c.pod, c.pending
	if reason == "" {
		c.standing = standing{allocation: allocationOf(pod), granted: pod}
		return true
	}
	if old != nil && old.Reason == reason && old.Message == message && old.ObservedGeneration == pod.Generation {
		return false
	}
	c.pending = condition(v1.PodResizePending, old, reason, message, pod.Generation, now)
	return true
}

// candidate is a pod whose resize is to be decided.
type candidate struct {
	pod     *v1.Pod // as it asks
	growing bool    // its requests exceed the allocation
	since   time.Time
}

func (c *admittedPod) candidate() candidate {
	out := candidate{pod: c.pod, growing: more(requests(c.pod), requests(c.counted()))}
	if c.pending != nil {
		out.since = c.pending.LastTransitionTime.Time
	}
	return out
}

// compareCandidates orders by: no increase of requests first, then priority, QoS class, and time of the pending resize.
func compareCandidates(a, b candidate) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	guaranteed := func(p *v1.Pod) bool { return status.QOS(p) == v1.PodQOSGuaranteed }
	return cmp.Or(first(!a.growing, !b.growing), cmp.Compare(priority(b.pod), priority(a.pod)),
		first(guaranteed(a.pod), guaranteed(b.pod)), a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID))
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func more(wanted, had v1.ResourceList) bool {
	return wanted.Cpu().Cmp(*had.Cpu()) > 0 || wanted.Memory().Cmp(*had.Memory()) > 0
}

// refuseResize returns why a resize is deferred or infeasible; nothing if it can be allocated.
func refuseResize(pod *v1.Pod, node *v1.Node, others []*v1.Pod) (reason, message string) {
	if static.Is(pod) || static.IsMirror(pod) {
		return v1.PodReasonInfeasible, "In-place resize of static-pods is not supported"
	}
	wanted := requests(pod)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		has, asked := node.Status.Allocatable[name], wanted[name]
		if asked.Cmp(has) <= 0 {
			continue
		}
		n, capacity := asked.Value(), has.Value()
		if name == v1.ResourceCPU {
			n, capacity = asked.MilliValue(), has.MilliValue()
		}
		return v1.PodReasonInfeasible, fmt.Sprintf(
			"Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, n, capacity)
	}
	if s := short(pod, node, others); s != nil {
		return v1.PodReasonDeferred, s.text()
	}
	return "", ""
}
