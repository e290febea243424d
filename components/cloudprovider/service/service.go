package service

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// finalizer keeps a Service until its load balancer is gone.
const finalizer = "service.kubernetes.io/load-balancer-cleanup"

// toBeDeletedTaint is what the cluster autoscaler marks nodes with that it is about to remove.
const toBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"

// change is an event about a changed field.
type change struct{ reason, message string }

// wantsLoadBalancer tells whether a Service requests a load balancer of this controller.
func (c *Controller) wantsLoadBalancer(svc *v1.Service) bool {
	return svc.Spec.Type == v1.ServiceTypeLoadBalancer && c.ofClass(svc)
}

func (c *Controller) ofClass(svc *v1.Service) bool {
	return svc.Spec.LoadBalancerClass == nil || c.class != "" && *svc.Spec.LoadBalancerClass == c.class
}

// needsCleanup tells whether a Service waits for the removal of its load balancer. One of another class waits for
// another controller.
func (c *Controller) needsCleanup(svc *v1.Service) bool {
	return hasFinalizer(svc) && c.ofClass(svc) &&
		(svc.DeletionTimestamp != nil || svc.Spec.Type != v1.ServiceTypeLoadBalancer)
}

func hasFinalizer(svc *v1.Service) bool { return slices.Contains(svc.Finalizers, finalizer) }

// needsUpdate tells whether a changed Service concerns its load balancer, and the events of that.
func (c *Controller) needsUpdate(old, now *v1.Service) (bool, *change) {
	wanted, wants := c.wantsLoadBalancer(old), c.wantsLoadBalancer(now)
	if !wanted && !wants {
		return false, nil
	}
	if wanted != wants {
		return true, &change{"Type", fmt.Sprintf("%v -> %v", old.Spec.Type, now.Spec.Type)}
	}
	a, b := &old.Spec, &now.Spec
	between := func(reason string, from, to any) (bool, *change) {
		return true, &change{reason, fmt.Sprintf("%v -> %v", from, to)}
	}
	switch {
	case !apiequality.Semantic.DeepEqual(a.LoadBalancerSourceRanges, b.LoadBalancerSourceRanges):
		return between("LoadBalancerSourceRanges", a.LoadBalancerSourceRanges, b.LoadBalancerSourceRanges)
	case !samePorts(a.Ports, b.Ports), a.SessionAffinity != b.SessionAffinity,
		!reflect.DeepEqual(a.SessionAffinityConfig, b.SessionAffinityConfig):
		return true, nil
	case a.LoadBalancerIP != b.LoadBalancerIP:
		return between("LoadbalancerIP", a.LoadBalancerIP, b.LoadBalancerIP)
	case len(a.ExternalIPs) != len(b.ExternalIPs):
		return true, &change{"ExternalIP", fmt.Sprintf("Count: %v -> %v", len(a.ExternalIPs), len(b.ExternalIPs))}
	}
	for i, ip := range b.ExternalIPs {
		if a.ExternalIPs[i] != ip {
			return true, &change{"ExternalIP", "Added: " + ip}
		}
	}
	switch {
	case !apiequality.Semantic.DeepEqual(old.Annotations, now.Annotations):
		return true, nil
	case old.UID != now.UID:
		return between("UID", old.UID, now.UID)
	case a.ExternalTrafficPolicy != b.ExternalTrafficPolicy:
		return between("ExternalTrafficPolicy", a.ExternalTrafficPolicy, b.ExternalTrafficPolicy)
	case a.HealthCheckNodePort != b.HealthCheckNodePort:
		return between("HealthCheckNodePort", a.HealthCheckNodePort, b.HealthCheckNodePort)
	case len(a.IPFamilies) != len(b.IPFamilies):
		return true, &change{"IPFamilies", fmt.Sprintf("Count: %v -> %v", len(a.IPFamilies), len(b.IPFamilies))}
	}
	return false, nil
}

func samePorts(a, b []v1.ServicePort) bool {
	return slices.EqualFunc(a, b, func(a, b v1.ServicePort) bool {
		return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && a.NodePort == b.NodePort &&
			a.TargetPort == b.TargetPort
	})
}

// takesLoadBalancers tells whether load balancers may lead to a node.
func takesLoadBalancers(node *v1.Node) bool {
	if _, excluded := node.Labels[v1.LabelNodeExcludeBalancers]; excluded || node.DeletionTimestamp != nil {
		return false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == toBeDeletedTaint {
			return false
		}
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// patch writes what differs between two versions of a Service, through the status.
func (c *Controller) patch(ctx context.Context, old, now *v1.Service) error {
	was, err := json.Marshal(old)
	if err != nil {
		return err
	}
	is, err := json.Marshal(now)
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, v1.Service{})
	if err != nil {
		return err
	}
	_, err = c.client.Services(old.Namespace).Patch(ctx, old.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

func (c *Controller) addFinalizer(ctx context.Context, svc *v1.Service) error {
	if hasFinalizer(svc) {
		return nil
	}
	updated := svc.DeepCopy()
	updated.Finalizers = append(updated.Finalizers, finalizer)
	return c.patch(ctx, svc, updated)
}

// release removes the finalizer and the status in one write, so that neither is left where the program ends between
// two. A Service without other finalizers is gone afterwards.
func (c *Controller) release(ctx context.Context, key string, svc *v1.Service) error {
	old := c.before(key, svc, v1.LoadBalancerStatus{})
	if !hasFinalizer(old) && len(old.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	updated := old.DeepCopy()
	updated.Finalizers = slices.DeleteFunc(updated.Finalizers, func(f string) bool { return f == finalizer })
	updated.Status.LoadBalancer = v1.LoadBalancerStatus{}
	return c.patch(ctx, old, updated)
}

func (c *Controller) setStatus(ctx context.Context, key string, svc *v1.Service, status v1.LoadBalancerStatus) error {
	old := c.before(key, svc, status)
	if apiequality.Semantic.DeepEqual(old.Status.LoadBalancer, status) {
		return nil
	}
	updated := old.DeepCopy()
	updated.Status.LoadBalancer = status
	if err := c.patch(ctx, old, updated); err != nil {
		return err
	}
	c.written[key] = status
	return nil
}

// before is what a patch to a wanted status starts from: the Service of the informer's cache, or where that has the
// wanted status already, the Service with the status that was written last, which the cache may have yet to see.
func (c *Controller) before(key string, svc *v1.Service, wanted v1.LoadBalancerStatus) *v1.Service {
	written, ok := c.written[key]
	if !ok || !apiequality.Semantic.DeepEqual(svc.Status.LoadBalancer, wanted) {
		return svc
	}
	old := svc.DeepCopy()
	old.Status.LoadBalancer = written
	return old
}
