package proxy

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/proxy/compile"
)

// event is one watch event. The syncer's goroutine calls it; it tells whether rules may change.
type event func(*syncer) bool

func serviceEvent(svc *v1.Service, deleted bool) event {
	return func(s *syncer) bool {
		if deleted {
			s.tracker.DeleteService(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		} else {
			s.tracker.SetService(svc)
		}
		s.p.metrics.serviceChanged()
		return true
	}
}

// sliceEvent is of an EndpointSlice that came, changed or is gone; before is nil unless it changed.
func sliceEvent(before, slice *discoveryv1.EndpointSlice, deleted bool) event {
	return func(s *syncer) bool {
		s.p.metrics.endpointsChanged()
		if deleted {
			s.tracker.DeleteSlice(types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name})
			return true
		}
		s.tracker.SetSlice(slice)
		if trigger := triggerOf(slice); trigger.After(s.p.started) &&
			(before == nil || !triggerOf(before).Equal(trigger)) {
			for _, f := range s.families {
				if string(f.family) == string(slice.AddressType) {
					f.triggers = append(f.triggers, trigger)
				}
			}
		}
		return true
	}
}

// triggerOf is when the cause of a slice's last change came about; zero where it is not annotated.
func triggerOf(slice *discoveryv1.EndpointSlice) time.Time {
	// What is no time there was written by another program, and means nothing to rules.
	trigger, _ := time.Parse(time.RFC3339Nano, slice.Annotations[v1.EndpointsLastChangeTriggerTime])
	return trigger
}

// nodeEvent is of the own Node. Where it is gone, rules stay as they are.
func nodeEvent(ctx context.Context, node *v1.Node, deleted bool) event {
	return func(s *syncer) bool {
		if deleted {
			s.p.health.SyncNode(nil)
			return false
		}
		s.p.health.SyncNode(node)
		moved := s.node == nil || compile.NodeOf(s.node) != compile.NodeOf(node)
		s.node = node
		s.tracker.SetNode(compile.NodeOf(node))
		return s.reconfigure(ctx) || moved
	}
}

func serviceCIDREvent(ctx context.Context, object *networkingv1.ServiceCIDR, deleted bool) event {
	return func(s *syncer) bool {
		if deleted {
			delete(s.serviceCIDRs, object.Name)
		} else {
			s.serviceCIDRs.set(object)
		}
		return s.reconfigure(ctx)
	}
}
