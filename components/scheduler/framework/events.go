package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// allKinds are all events but those of resources that are watched on demand.
const allKinds = queue.Watched - 1

// kindsOf are our names of upstream's actions on nodes and pods.
var kindsOf = map[fwk.EventResource]map[fwk.ActionType]queue.Kind{
	fwk.Node: {
		fwk.Add: queue.NodeAdded, fwk.Delete: queue.NodeRemoved, fwk.UpdateNodeAllocatable: queue.NodeAllocatable,
		fwk.UpdateNodeLabel: queue.NodeLabels, fwk.UpdateNodeTaint: queue.NodeTaints,
		fwk.UpdateNodeCondition: queue.NodeConditions, fwk.UpdateNodeAnnotation: queue.NodeAnnotations,
		fwk.UpdateNodeDeclaredFeature: queue.NodeFeatures,
	},
	fwk.Pod: {
		fwk.Add: queue.PodAdded, fwk.Delete: queue.PodRemoved,
		fwk.UpdatePodLabel:                     queue.PodLabels | queue.OwnLabels,
		fwk.UpdatePodScaleDown:                 queue.PodShrunk | queue.OwnRequests,
		fwk.UpdatePodToleration:                queue.OwnTolerations,
		fwk.UpdatePodSchedulingGatesEliminated: queue.OwnGates,
		fwk.UpdatePodGeneratedResourceClaim:    queue.OwnResourceClaims,
	},
}

// resourceOf are the API resources behind upstream's names of events.
var resourceOf = map[fwk.EventResource]schema.GroupVersionResource{
	fwk.PersistentVolume:      v1.SchemeGroupVersion.WithResource("persistentvolumes"),
	fwk.PersistentVolumeClaim: v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
	fwk.CSINode:               {Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"},
	fwk.CSIDriver:             {Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"},
	fwk.VolumeAttachment:      {Group: "storage.k8s.io", Version: "v1", Resource: "volumeattachments"},
	fwk.CSIStorageCapacity:    {Group: "storage.k8s.io", Version: "v1", Resource: "csistoragecapacities"},
	fwk.StorageClass:          {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	fwk.ResourceClaim:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	fwk.ResourceSlice:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"},
	fwk.DeviceClass:           {Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
}

// hints are the events that a plug-in registers; without EventsToRegister any event may help.
func (h *Handle) hints(ctx context.Context, plugin fwk.Plugin) ([]queue.Hint, error) {
	extensions, ok := plugin.(fwk.EnqueueExtensions)
	if !ok {
		return []queue.Hint{{Kinds: allKinds}}, nil
	}
	events, err := extensions.EventsToRegister(ctx)
	if err != nil {
		return nil, fmt.Errorf("EventsToRegister: %w", err)
	}
	var hints []queue.Hint
	for _, e := range events {
		hint, err := h.hint(e)
		if err != nil {
			return nil, err
		}
		hints = append(hints, hint)
	}
	return hints, nil
}

func (h *Handle) hint(e fwk.ClusterEventWithHint) (queue.Hint, error) {
	resource, action := e.Event.Resource, e.Event.ActionType
	if resource == fwk.WildCard {
		return queue.Hint{Kinds: allKinds | queue.Watched, Helps: h.helps(e.QueueingHintFn)}, nil
	}
	if kinds, ok := kindsOf[resource]; ok {
		var wanted queue.Kind
		for bit, kind := range kinds {
			if action&bit != 0 {
				wanted |= kind
			}
		}
		return queue.Hint{Kinds: wanted, Helps: h.helps(e.QueueingHintFn)}, nil
	}
	gvr, ok := resourceOf[resource]
	if !ok {
		parsed, _ := schema.ParseResourceArg(string(resource))
		if parsed == nil {
			return queue.Hint{}, fmt.Errorf("event resource %q: neither known nor written as resources.version.group", resource)
		}
		gvr = *parsed
	}
	h.services.watch(string(resource), gvr, ok)
	helps := h.helps(e.QueueingHintFn)
	return queue.Hint{Kinds: queue.Watched, Helps: func(p *snapshot.Pod, event queue.Event) bool {
		return event.Resource == string(resource) && fwk.ActionType(event.Action)&action != 0 &&
			(helps == nil || helps(p, event))
	}}, nil
}

// helps adapts a queueing hint; one that fails lets the pod be tried.
func (h *Handle) helps(fn fwk.QueueingHintFn) func(*snapshot.Pod, queue.Event) bool {
	if fn == nil {
		return nil
	}
	return func(p *snapshot.Pod, e queue.Event) bool {
		old, now := objects(e)
		hint, err := fn(h.logger(), p.Obj, old, now)
		if err != nil {
			h.logger().Error(err, "Queueing hint failed", "pod", klog.KObj(p.Obj), "event", e.Cause())
			return true
		}
		return hint == fwk.Queue
	}
}

// objects are those of an event before and after; nil interfaces where there are none.
func objects(e queue.Event) (old, now any) {
	old, now = e.Old, e.New
	if e.OldNode != nil {
		old = e.OldNode
	}
	if e.Node != nil {
		now = e.Node
	}
	if e.OldPod != nil {
		old = e.OldPod.Obj
	}
	if e.Pod != nil {
		now = e.Pod.Obj
	}
	return old, now
}

// Watched is a resource whose events plug-ins registered for.
type Watched struct {
	// Name is as the plug-ins know it.
	Name string
	schema.GroupVersionResource
	// Typed tells whether the informer factory has it; others are watched as unstructured objects.
	Typed bool
}

func (s *Services) watch(name string, gvr schema.GroupVersionResource, typed bool) {
	for _, w := range s.watched {
		if w.Name == name {
			return
		}
	}
	s.watched = append(s.watched, Watched{name, gvr, typed})
}

// Watched lists the resources to watch, once all plug-ins are made.
func (s *Services) Watched() []Watched { return s.watched }

// Actions of the events of watched resources.
const (
	Added   = int64(fwk.Add)
	Updated = int64(fwk.Update)
	Removed = int64(fwk.Delete)
)
