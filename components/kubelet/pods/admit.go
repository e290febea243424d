package pods

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/internal/resources"
)

// rejection is why a pod ends by the node's decision.
type rejection struct {
	reason, message string
	never           bool // it never ran
	// within is the grace period for the pod, 0 for its own.
	within time.Duration
	// disrupted tells that the pod was not the cause; condition is the message of the condition that says so, "" for
	// message.
	disrupted bool
	condition string
	silent    bool // no event tells of it
	// resources tells that the node has too little left.
	resources bool
}

// statusMessage is the message for the pod's status; events have the plain one.
func (r *rejection) statusMessage() string {
	if r.never {
		return "Pod was rejected: " + r.message
	}
	return r.message
}

// admit decides once whether a new pod may run here, and tells whether that is decided. A pod that has containers was
// admitted before.
func (w *worker) admit(ctx context.Context) bool {
	s := &w.state
	if s.admitted || s.rejected != nil || s.gone || s.final() {
		return true
	}
	if len(s.observed.Containers) > 0 || len(s.observed.Sandboxes) > 0 || s.pod.DeletionTimestamp != nil {
		w.adopt()
		return true
	}
	if s.fetchingNode || s.allocating {
		return false
	}
	if w.ShuttingDown != nil && w.ShuttingDown() != nil {
		w.reject(nodeShutdown())
		return true
	}
	if w.Pressure != nil {
		if why := refusePressure(s.pod, w.Pressure()); why != nil {
			w.reject(why)
			return true
		}
	}
	if message := w.Sysctls.Refuse(s.pod); message != "" {
		w.reject(&rejection{reason: "SysctlForbidden", message: message, never: true})
		return true
	}
	if reason, message := w.Builder.Unsupported(s.pod); reason != "" {
		w.reject(&rejection{reason: reason, message: message, never: true})
		return true
	}
	if w.Devices != nil && !s.allocated && w.Devices.Wants(s.pod) {
		w.allocateDevices(ctx)
		return false
	}
	node := w.Node()
	if node == nil {
		w.adopt() // nothing to compare with: trust the scheduler
		return true
	}
	why := w.tryAdmit(node)
	if why != nil && why.reason == affinity && w.FreshNode != nil {
		s.fetchingNode = true // the scheduler may have seen a new label before this kubelet
		w.begin(func(func(result)) result {
			fresh, err := w.FreshNode(ctx)
			return nodeFetched{fresh, why, err}
		})
		return false
	}
	if why == nil {
		return true
	}
	if w.preempt(node, why) {
		return false
	}
	w.reject(why)
	return true
}

// nodeShutdown is why a node that shuts down takes no pods.
func nodeShutdown() *rejection {
	return &rejection{reason: "NodeShutdown", message: "Pod was rejected as the node is shutting down.", never: true}
}

// nodeFetched is the node as the API server has it, for a pod that the node as it was known refuses.
type nodeFetched struct {
	node    *v1.Node
	refused *rejection // by the node as it was known
	err     error
}

func (r nodeFetched) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.fetchingNode, s.decide = false, true
	if s.admitted || s.rejected != nil || s.gone {
		return
	}
	if r.err != nil {
		klog.FromContext(ctx).Error(r.err, "Node can't be fetched: the pod is admitted by what is known of it",
			"pod", klog.KObj(s.pod))
		w.reject(r.refused)
	} else if why := w.tryAdmit(r.node); why != nil {
		w.reject(why)
	}
}

// tryAdmit gives the pod its place on the node, or tells why there is none.
func (w *worker) tryAdmit(node *v1.Node) *rejection {
	s := &w.state
	resize := s.resize.begun(s.pod)
	if s.allocated {
		node = w.Devices.WithAllocated(node)
	}
	if why := w.m.admission.admit(s.pod, resize.standing, node); why != nil {
		return why
	}
	s.admitted, s.resize = true, resize
	return nil
}

// adopt gives the pod its place on the node, whatever that has.
func (w *worker) adopt() {
	s := &w.state
	s.admitted, s.resize = true, s.resize.begun(s.pod)
	w.m.admission.adopt(s.pod, s.resize.standing)
}

// reject fails a pod that is not admitted and records an event.
func (w *worker) reject(why *rejection) {
	w.state.rejected = why
	if why.silent {
		return
	}
	w.record(w.state.pod, v1.EventTypeWarning, why.reason, why.message)
}

// evict ends a pod for what it takes from others.
func (w *worker) evict(why *rejection) {
	s := &w.state
	if s.gone || s.rejected != nil || s.final() {
		return
	}
	w.reject(why)
	s.observe = true
}

// affinity is the reason for a pod whose node affinity does not match.
const affinity = "NodeAffinity"

// refuse returns why a pod does not fit on a node with the other pods, nil if it does.
func refuse(pod *v1.Pod, node *v1.Node, others []*v1.Pod) *rejection {
	never := func(reason, message string) *rejection {
		return &rejection{reason: reason, message: message, never: true}
	}
	if os := pod.Spec.OS; os != nil && os.Name != v1.Linux {
		return never("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !match {
		return never(affinity, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
	}
	for _, port := range hostPorts(pod) {
		for _, other := range others {
			for _, taken := range hostPorts(other) {
				if conflict(port, taken) {
					return never("NodePorts",
						"Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")
				}
			}
		}
	}
	evicts := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	_, untolerated := corev1helper.FindMatchingUntoleratedTaint(
		klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, evicts, true)
	if untolerated && !static.Is(pod) {
		return never("TaintToleration",
			"Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")
	}
	return refuseResources(pod, node, others)
}

func refuseResources(pod *v1.Pod, node *v1.Node, others []*v1.Pod) *rejection {
	if s := short(pod, node, others); s != nil {
		return &rejection{reason: "OutOf" + string(s.name), message: s.text(), never: true, resources: true}
	}
	return nil
}

// shortage is a resource of which the node hasn't enough.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity int64
}

func (s *shortage) text() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.name, s.requested, s.used, s.capacity)
}

// short returns the insufficient resources of a node with the other pods, nil if the pod fits.
func short(pod *v1.Pod, node *v1.Node, others []*v1.Pod) *shortage {
	if limit, ok := node.Status.Allocatable[v1.ResourcePods]; ok && int64(len(others)+1) > limit.Value() {
		return &shortage{v1.ResourcePods, 1, int64(len(others)), limit.Value()}
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	used := v1.ResourceList{}
	for _, other := range others {
		for name, quantity := range resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(quantity)
			used[name] = sum
		}
	}
	for name, wanted := range requests {
		if wanted.IsZero() {
			continue
		}
		have, known := node.Status.Allocatable[name]
		if !known && resources.Extended(name) {
			continue // it is the cluster's, not the node's: an extender of the scheduler counts it
		}
		taken := used[name]
		total := taken.DeepCopy()
		total.Add(wanted)
		if total.Cmp(have) <= 0 {
			continue
		}
		if name == v1.ResourceCPU {
			return &shortage{name, wanted.MilliValue(), taken.MilliValue(), have.MilliValue()}
		}
		return &shortage{name, wanted.Value(), taken.Value(), have.Value()}
	}
	return nil
}

func hostPorts(pod *v1.Pod) []v1.ContainerPort {
	var ports []v1.ContainerPort
	for _, c := range plan.Containers(pod) {
		if plan.IsInit(pod, c.Name) && !plan.IsSidecar(c) {
			continue // it has ended when others start
		}
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				ports = append(ports, p)
			}
		}
	}
	return ports
}

func conflict(a, b v1.ContainerPort) bool {
	anywhere := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol &&
		(a.HostIP == b.HostIP || anywhere(a.HostIP) || anywhere(b.HostIP))
}
