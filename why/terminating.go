package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finalizers are those of Kubernetes itself: who takes them away, and when.
var finalizers = map[string]string{
	"kubernetes.io/pvc-protection":           "It goes when no pod uses the claim.",
	"kubernetes.io/pv-protection":            "It goes when no claim is bound to the volume.",
	"kubernetes.io/pvc-as-source-protection": "It goes when no volume is being cloned from the claim.",

	"foregroundDeletion": "The garbage collector takes it away with the last dependent that blocks.",
	"orphan":             "The garbage collector takes it away when no dependent names it as owner.",

	"batch.kubernetes.io/job-tracking":            "The Job controller takes it away when it has counted the pod.",
	"service.kubernetes.io/load-balancer-cleanup": "The cloud provider takes it away with the load balancer.",
	"resource.kubernetes.io/delete-protection":    "It goes when the claim is no longer reserved.",
	"external-attacher/":                          "The driver's attacher takes it away with the attachment.",
	"networking.k8s.io/service-cidr-finalizer":    "It goes when no address of the range is in use.",

	"customresourcecleanup.apiextensions.k8s.io":      "It goes with the last custom resource.",
	"storage.k8s.io/volumeattributesclass-protection": "It goes when no claim names the class.",
}

// terminating is what keeps a deleted object.
func (s *Snapshot) terminating(obj client.Object) []Cause {
	if n, ok := obj.(*corev1.Namespace); ok {
		return namespaceContent(n)
	}
	var causes []Cause
	for _, name := range obj.GetFinalizers() {
		causes = append(causes, s.finalizer(obj, name))
	}
	if p, ok := obj.(*corev1.Pod); ok {
		causes = append(causes, s.stopping(p)...)
	}
	if len(causes) == 0 {
		causes = []Cause{{Reason: "Deleting", Message: "Nothing holds it any more."}}
	}
	return causes
}

func (s *Snapshot) finalizer(obj client.Object, name string) Cause {
	c := Cause{Reason: "Finalizer", Message: fmt.Sprintf("The finalizer %s holds it.", name)}
	for known, meaning := range finalizers {
		if name == known || strings.HasSuffix(known, "/") && strings.HasPrefix(name, known) {
			c.Help = meaning
		}
	}
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && name == "kubernetes.io/pvc-protection" {
		c.Causes = s.users(claim)
	}
	if c.Help == "" {
		c.Help = "Its controller takes it away: see whether that runs, and its log."
		if manager := managerOf(obj.GetManagedFields(), name); manager != "" {
			c.Message = fmt.Sprintf("The finalizer %s holds it, which %s set.", name, manager)
			c.Help = fmt.Sprintf("%s takes it away: see whether that runs, and its log.", manager)
		}
	}
	return c
}

// users are the pods that use a claim, as causes.
func (s *Snapshot) users(claim *corev1.PersistentVolumeClaim) []Cause {
	var causes []Cause
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			causes = append(causes, about("Pod", p, Cause{Reason: "UsedBy", Message: "It uses the claim."}))
		}
	}
	return causes
}

// managerOf is who set a finalizer, by the managed fields; "" if they don't tell.
func managerOf(fields []metav1.ManagedFieldsEntry, finalizer string) string {
	for _, entry := range fields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), fmt.Sprintf(`"v:\"%s\""`, finalizer)) {
			return entry.Manager
		}
	}
	return ""
}

// namespaceContent is what is left in a namespace, as the namespace controller reports it.
func namespaceContent(n *corev1.Namespace) []Cause {
	var causes []Cause
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			cause := Cause{Reason: c.Reason, Message: c.Message}
			switch c.Type {
			case corev1.NamespaceDeletionDiscoveryFailure:
				cause.Help = "An APIService is not available: kubectl get apiservices."
			case corev1.NamespaceFinalizersRemaining:
				cause.Help = "Ask why of the objects that are left: their finalizers hold them."
			}
			causes = append(causes, cause)
		}
	}
	for _, f := range n.Finalizers {
		causes = append(causes, Cause{Reason: "Finalizer", Message: fmt.Sprintf("The finalizer %s holds it.", f),
			Help: "Its controller takes it away: see whether that runs, and its log."})
	}
	if len(causes) == 0 {
		causes = []Cause{{Reason: "Deleting", Message: "The namespace controller deletes what is in it.",
			Help: "If that lasts, see whether the controller manager runs."}}
	}
	return causes
}

// stopping is what keeps the containers of a pod that is being deleted.
func (s *Snapshot) stopping(p *corev1.Pod) []Cause {
	if n := s.node(p.Spec.NodeName); n != nil {
		if state, of := node(n); state != Ready {
			return []Cause{about("Node", n, Cause{Reason: "NodeNotReady",
				Message: "Its kubelet can not tell that the containers have ended.", Causes: of,
				Help: "Bring the node back, or delete it; kubectl delete pod --force only forgets the pod."})}
		}
	}
	var running []string
	for _, status := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		if status.State.Running != nil {
			running = append(running, status.Name)
		}
	}
	if len(running) == 0 {
		return nil
	}
	left := p.DeletionTimestamp.Sub(s.Now).Round(time.Second)
	if left > 0 {
		return []Cause{{Reason: "GracePeriod", Message: fmt.Sprintf("Containers end by themselves within %v: %s.", left,
			list(running)), Help: "A program that ends on SIGTERM takes less."}}
	}
	return []Cause{{Reason: "NotStopped", Message: fmt.Sprintf(
		"Its grace period ended %v ago, and containers still run: %s.", -left, list(running)),
		Help: "See the log of its node's kubelet."}}
}
