package why

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func (s *Snapshot) service(svc *corev1.Service) (State, []Cause) {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return Ready, nil
	}
	var causes []Cause
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && len(svc.Status.LoadBalancer.Ingress) == 0 {
		c := Cause{Reason: "NoLoadBalancer", Message: "It has no load balancer's address yet.",
			Help: "See whether a cloud provider or another controller of load balancers runs."}
		if e := s.lastEvent(svc.UID, "SyncLoadBalancerFailed", "CreatingLoadBalancerFailed"); e != nil {
			c.Message = e.Message
		}
		causes = append(causes, c)
	}
	if s.hasEndpoints(svc) {
		if len(causes) > 0 {
			return Pending, causes
		}
		return Ready, nil
	}
	return Pending, append(causes, s.noEndpoints(svc))
}

func (s *Snapshot) hasEndpoints(svc *corev1.Service) bool {
	for i := range s.Slices {
		slice := &s.Slices[i]
		if slice.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				return true
			}
		}
	}
	return !s.known("EndpointSlice")
}

// noEndpoints is why a Service has no endpoint that is ready.
func (s *Snapshot) noEndpoints(svc *corev1.Service) Cause {
	cause := Cause{Reason: "NoEndpoints", Message: "No endpoint of it is ready."}
	if len(svc.Spec.Selector) == 0 {
		cause.Causes = []Cause{s.noSelector(svc)}
		return cause
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	var pods []*corev1.Pod
	for i := range s.Pods {
		if p := &s.Pods[i]; selector.Matches(labels.Set(p.Labels)) && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		cause.Causes = []Cause{{Reason: "NoPods", Message: fmt.Sprintf("None of %d pods of the namespace matches %s.",
			len(s.Pods), selector), Help: "Correct spec.selector, or the labels of the pods."}}
		return cause
	}
	if missing := missingPorts(svc, pods); len(missing) > 0 {
		cause.Causes = append(cause.Causes, Cause{Reason: "TargetPortMissing", Message: fmt.Sprintf(
			"No container of its pods has a port named %s.", list(missing)),
			Help: "Name the port in the containers, or correct targetPort."})
	}
	cause.Causes = append(cause.Causes, s.podCauses(func(p *corev1.Pod) bool {
		return selector.Matches(labels.Set(p.Labels))
	})...)
	if len(cause.Causes) == 0 {
		cause.Causes = []Cause{{Reason: "NotReported", Message: "Its pods are ready; the endpoints will follow.",
			Help: "If that lasts, see whether the controller manager runs."}}
	}
	return cause
}

// noSelector is why a Service without a selector has no endpoint that is ready: the endpoints of default/kubernetes are
// written by API servers, and those of others by clients.
func (s *Snapshot) noSelector(svc *corev1.Service) Cause {
	switch {
	case slices.ContainsFunc(s.Slices, func(slice discoveryv1.EndpointSlice) bool {
		return slice.Labels[discoveryv1.LabelServiceName] == svc.Name && len(slice.Endpoints) > 0
	}):
		return Cause{Reason: "EndpointsNotReady", Message: "It has no selector, and none of the endpoints that its " +
			"EndpointSlices name is ready.", Help: "Look at the client that writes its EndpointSlices."}
	case svc.Namespace == corev1.NamespaceDefault && svc.Name == "kubernetes":
		return Cause{Reason: "NotReported", Message: "API servers write its endpoints, and have written none: those that " +
			"listen on a loopback address alone, as in a cluster in process, have no address for pods.",
			Help: "In other clusters, see --advertise-address and --endpoint-reconciler-type of the API servers, and their " +
				"logs."}
	}
	return Cause{Reason: "NoSelector", Message: "It has no selector, so that no controller writes its endpoints; a " +
		"client has to, and has not.", Help: fmt.Sprintf("Create an EndpointSlice with the label %s: %s, or set spec.selector.",
		discoveryv1.LabelServiceName, svc.Name)}
}

// missingPorts are the names of target ports that no pod has.
func missingPorts(svc *corev1.Service, pods []*corev1.Pod) []string {
	var missing []string
	for _, port := range svc.Spec.Ports {
		if port.TargetPort.Type == intstr.String && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
			return hasPort(p, port.TargetPort.StrVal, port.Protocol)
		}) {
			missing = append(missing, port.TargetPort.StrVal)
		}
	}
	return missing
}

func hasPort(p *corev1.Pod, name string, protocol corev1.Protocol) bool {
	sidecars := slices.DeleteFunc(slices.Clone(p.Spec.InitContainers), func(c corev1.Container) bool {
		return ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
	})
	for _, c := range append(sidecars, p.Spec.Containers...) {
		for _, port := range c.Ports {
			if port.Name == name && (protocol == "" || port.Protocol == "" || port.Protocol == protocol) {
				return true
			}
		}
	}
	return false
}

// list is names for a sentence.
func list(names []string) string { return strings.Join(sorted(names), ", ") }

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}
