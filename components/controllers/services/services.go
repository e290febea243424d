// Package services holds what both kinds of endpoints are made from: which pods a Service selects and where they
// listen.
package services

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/net"

	"quintet.dev/quintet/components/controllers/pods"
)

// HeadlessLabel marks the endpoints of a Service without an address of its own.
const HeadlessLabel = v1.IsHeadlessService

// Selects tells whether endpoints are made for the Service from the pods it selects.
func Selects(service *v1.Service) bool {
	return service.Spec.Type != v1.ServiceTypeExternalName && service.Spec.Selector != nil
}

// Pods returns the pods the Service selects.
func Pods(index *pods.Index, service *v1.Service) []*v1.Pod {
	return index.Selected(service.Namespace, service.Spec.Selector)
}

// Of returns the keys of the Services that select the pod, in its old or its new state; none if nothing changed
// that endpoints tell.
func Of(lister corelisters.ServiceLister, old, new *v1.Pod) []string {
	if old != nil && new != nil && !differ(old, new) {
		return nil
	}
	pod := new
	if pod == nil {
		pod = old
	}
	all, err := lister.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []string
	for _, service := range all {
		if !Selects(service) {
			continue
		}
		if old != nil && pods.HasLabels(old, service.Spec.Selector) ||
			new != nil && pods.HasLabels(new, service.Spec.Selector) {
			keys = append(keys, service.Namespace+"/"+service.Name)
		}
	}
	return keys
}

func differ(old, new *v1.Pod) bool {
	return old.UID != new.UID ||
		(old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil) ||
		pods.Ready(old) != pods.Ready(new) ||
		pods.Ended(old) != pods.Ended(new) ||
		old.Spec.NodeName != new.Spec.NodeName ||
		old.Spec.Hostname != new.Spec.Hostname || old.Spec.Subdomain != new.Spec.Subdomain ||
		!equality.Semantic.DeepEqual(old.Status.PodIPs, new.Status.PodIPs) || old.Status.PodIP != new.Status.PodIP ||
		!equality.Semantic.DeepEqual(old.Labels, new.Labels)
}

// IPs returns the pod's addresses of a family.
func IPs(pod *v1.Pod, family v1.IPFamily) []string {
	all := pod.Status.PodIPs
	if len(all) == 0 && pod.Status.PodIP != "" {
		all = []v1.PodIP{{IP: pod.Status.PodIP}}
	}
	var found []string
	for _, ip := range all {
		if net.IsIPv6String(ip.IP) == (family == v1.IPv6Protocol) && ip.IP != "" {
			found = append(found, ip.IP)
		}
	}
	return found
}

// Headless reports whether the Service wants no cluster IP.
func Headless(service *v1.Service) bool { return service.Spec.ClusterIP == v1.ClusterIPNone }

// Families returns the address families of the Service; old API servers leave them to be guessed.
func Families(service *v1.Service) []v1.IPFamily {
	switch {
	case len(service.Spec.IPFamilies) > 0:
		return service.Spec.IPFamilies
	case !Headless(service) && net.IsIPv6String(service.Spec.ClusterIP):
		return []v1.IPFamily{v1.IPv6Protocol}
	}
	return []v1.IPFamily{v1.IPv4Protocol}
}

// Port finds where the pod listens for the Service's port; ok is false if none of its containers has the named port.
func Port(pod *v1.Pod, port *v1.ServicePort) (number int32, ok bool) {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal, true
	}
	sidecars := slices.Clone(pod.Spec.InitContainers)
	sidecars = slices.DeleteFunc(sidecars, func(c v1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways
	})
	for _, container := range append(slices.Clone(pod.Spec.Containers), sidecars...) {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// Hostname is the name under which DNS knows the pod within the Service; empty if it has none there.
func Hostname(pod *v1.Pod, service *v1.Service) string {
	if pod.Spec.Subdomain == service.Name && pod.Namespace == service.Namespace {
		return pod.Spec.Hostname
	}
	return ""
}

// Target refers to the pod behind an endpoint.
func Target(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Trigger is the value of the annotation that tells which change the endpoints follow: the earliest that previous
// doesn't know yet. It is previous if there is none.
func Trigger(previous string, service *v1.Service, selected []*v1.Pod) string {
	known, err := time.Parse(time.RFC3339Nano, previous)
	if err != nil {
		known = time.Time{}
	}
	var earliest time.Time
	consider := func(t time.Time) {
		if t.After(known) && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	consider(service.CreationTimestamp.Time)
	for _, pod := range selected {
		if c := pods.Condition(pod, v1.PodReady); c != nil {
			consider(c.LastTransitionTime.Time)
		}
	}
	if earliest.IsZero() {
		return previous
	}
	return earliest.UTC().Format(time.RFC3339Nano)
}
