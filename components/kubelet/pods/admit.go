package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// rejection is why a pod ends by the node's decision.
type rejection struct {
	reason, message string
	never           bool // it never ran
	// within is what the pod gets to end, 0 for what it asks for.
	within time.Duration
}

// told is the message of the pod's status; events have the bare one.
func (r *rejection) told() string {
	if r.never {
		return "Pod was rejected: " + r.message
	}
	return r.message
}

// admit decides once whether a new pod may run here; it is called with the lock held. A pod that has containers
// was admitted before.
func (w *worker) admit(ctx context.Context, observed *runtime.Pod) {
	if w.admitted || w.rejected != nil || w.gone || w.over() {
		return
	}
	if len(observed.Containers) > 0 || len(observed.Sandboxes) > 0 || w.pod.DeletionTimestamp != nil {
		w.admitted = true
		return
	}
	pod := w.pod
	if message := w.m.Sysctls.Refuse(pod); message != "" {
		w.reject(pod, &rejection{reason: "SysctlForbidden", message: message, never: true})
		return
	}
	if reason, message := w.m.Builder.Unsupported(pod); reason != "" {
		w.reject(pod, &rejection{reason: reason, message: message, never: true})
		return
	}
	node := w.m.Node()
	if node == nil {
		w.admitted = true // nothing to compare with: trust the scheduler
		return
	}
	w.mu.Unlock() // others have locks of their own
	w.m.admission.Lock()
	defer w.m.admission.Unlock()
	others := w.m.others(w.uid)
	why := refuse(pod, node, others)
	if why != nil && why.reason == affinity && w.m.FreshNode != nil {
		// The scheduler may have heard of a new label before this kubelet did.
		if fresh, err := w.m.FreshNode(ctx); err != nil {
			w.logger.Error(err, "Node can't be fetched: the pod is judged by what is known of it", "pod", klog.KObj(pod))
		} else {
			why = refuse(pod, fresh, others)
		}
	}
	w.mu.Lock()
	if why == nil {
		w.admitted = true
		return
	}
	w.reject(pod, why)
}

// reject ends a pod that may not run here, and tells of it; it is called with the lock held.
func (w *worker) reject(pod *v1.Pod, why *rejection) {
	w.rejected = why
	w.m.record(pod, v1.EventTypeWarning, why.reason, why.message)
}

// affinity is the reason of a pod that asks for another node.
const affinity = "NodeAffinity"

// refuse tells why a pod can't run on a node beside others, nil if it can.
func refuse(pod *v1.Pod, node *v1.Node, others []*v1.Pod) *rejection {
	if os := pod.Spec.OS; os != nil && os.Name != v1.Linux {
		return &rejection{reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS", never: true}
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !match {
		return &rejection{reason: affinity, message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", never: true}
	}
	for _, port := range hostPorts(pod) {
		for _, other := range others {
			for _, taken := range hostPorts(other) {
				if conflict(port, taken) {
					return &rejection{reason: "NodePorts", message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports", never: true}
				}
			}
		}
	}
	evicts := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	if _, untolerated := corev1helper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, evicts, true); untolerated {
		return &rejection{reason: "TaintToleration", message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate", never: true}
	}
	return refuseResources(pod, node, others)
}

func refuseResources(pod *v1.Pod, node *v1.Node, others []*v1.Pod) *rejection {
	if s := short(pod, node, others); s != nil {
		return &rejection{reason: "OutOf" + string(s.name), message: s.text(), never: true}
	}
	return nil
}

// shortage is a resource of which the node hasn't enough.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity int64
}

func (s *shortage) text() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name, s.requested, s.used, s.capacity)
}

// short tells of what a pod lacks on a node beside others, nil if it fits.
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
		if !known && extended(name) {
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

// extended tells resources that are not Kubernetes' own.
func extended(name v1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
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
