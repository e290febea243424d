package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// feeds are the informers and whether all that they read at first has been taken in.
type feeds struct {
	informers.SharedInformerFactory
	dynamic dynamicinformer.DynamicSharedInformerFactory // nil if no custom resource is watched
	slices  *tracker.Tracker                             // nil if no devices are served
	synced  []cache.DoneChecker
	err     error

	now     func() time.Time
	handled func(event string, began time.Time) // measures what taking in a change took
}

// watch prepares the informers that feed the snapshot and the queue.
func (s *Scheduler) watch(ctx context.Context) (*feeds, error) {
	f := &feeds{SharedInformerFactory: s.config.handles.Informers, now: s.config.Clock.Now, handled: s.handled}
	pods := f.InformerFor(&v1.Pod{}, podInformer)
	store := pods.GetStore()
	s.pods.Store(&store)
	feed(f, pods, s.addPod, s.updatePod, s.deletePod)
	feed(f, f.Core().V1().Nodes().Informer(), s.addNode, s.updateNode, s.deleteNode)
	feed(f, f.Core().V1().Namespaces().Informer(), s.addNamespace, s.updateNamespace, s.deleteNamespace)
	served, err := s.served(ctx, "v1", "apps/v1", "policy/v1", "storage.k8s.io/v1", "resource.k8s.io/v1")
	if err != nil {
		return nil, err
	}
	s.watchWorkloads(f, served)
	s.watchVolumes(f, served)
	if err := s.watchDevices(ctx, f, served); err != nil {
		return nil, err
	}
	if err := s.watchOnDemand(f); err != nil {
		return nil, err
	}
	return f, f.err
}

// source tells of changes: an informer, or what changes the objects of one.
type source interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// feed adds typed functions as an informer's event handler.
func feed[T any](f *feeds, informer source, add func(T), update func(old, now T), remove func(T)) {
	registration, err := informer.AddEventHandler(handler(measured(f, "Add", add), func(old, now T) {
		measured(f, "Update", func(now T) { update(old, now) })(now)
	}, measured(f, "Delete", remove)))
	if err != nil {
		f.err = errors.Join(f.err, err)
		return
	}
	f.synced = append(f.synced, registration.HasSyncedChecker())
}

// measured is do, whose time is measured.
func measured[T any](f *feeds, action string, do func(T)) func(T) {
	return func(obj T) {
		began := f.now()
		do(obj)
		f.handled(changed(obj)+action, began)
	}
}

// changed names what changes for metrics.
func changed(obj any) string {
	if p, ok := obj.(*v1.Pod); ok && p.Spec.NodeName != "" {
		return "AssignedPod"
	} else if ok {
		return "UnscheduledPod"
	}
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndex(name, ".")+1:]
}

func (s *Scheduler) handled(event string, began time.Time) {
	s.metrics.events.WithLabelValues(event).Observe(s.config.Clock.Since(began).Seconds())
}

// handler adapts typed functions to an event handler.
func handler[T any](add func(T), update func(old, now T), remove func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { add(obj.(T)) },
		UpdateFunc: func(old, now any) { update(old.(T), now.(T)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if last, ok := obj.(T); ok {
				remove(last)
			}
		},
	}
}

func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

func placed(p *v1.Pod) bool { return p.Spec.NodeName != "" && !finished(p) }

// ours tells whether the pod waits for a node from one of the profiles.
func (s *Scheduler) ours(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && !finished(p) && s.profiles[p.Spec.SchedulerName] != nil
}

func (s *Scheduler) addPod(obj *v1.Pod) {
	s.state.change(func() {
		switch {
		case placed(obj):
			s.place(snapshot.NewPod(obj))
		case s.ours(obj):
			p := snapshot.NewPod(obj)
			s.nominations.follow("", p)
			s.queue.Add(p)
		}
	})
}

// place takes in a pod that got its node from the API server; the caller holds the state.
func (s *Scheduler) place(p *snapshot.Pod) {
	s.queue.Delete(p.UID())
	s.nominations.remove(p.UID())
	s.snapshot.SetPod(p)
	s.queue.Move(queue.Event{Kind: queue.PodAdded, Pod: p})
}

func (s *Scheduler) updatePod(old, now *v1.Pod) {
	if old.UID != now.UID {
		s.deletePod(old)
		s.addPod(now)
		return
	}
	s.state.change(func() {
		switch {
		case placed(now) && placed(old):
			s.replace(snapshot.NewPod(now))
		case placed(now):
			s.place(snapshot.NewPod(now))
		case s.ours(now):
			s.updateWaiting(old, snapshot.NewPod(now))
		default:
			s.gone(old)
		}
	})
}

// updateWaiting takes in a change of a pod without node; the caller holds the state. One that is bound, of which the
// watch has yet to tell, holds its room already and is not placed again.
func (s *Scheduler) updateWaiting(old *v1.Pod, now *snapshot.Pod) {
	if s.snapshot.Pod(now.UID()) != nil {
		s.queue.Update(now)
		return
	}
	s.nominations.follow(old.Status.NominatedNodeName, now)
	s.queue.Add(now)
}

// replace updates a placed pod; the caller holds the state.
func (s *Scheduler) replace(now *snapshot.Pod) {
	old := s.snapshot.Pod(now.UID())
	if old == nil {
		s.place(now)
		return
	}
	s.snapshot.SetPod(now)
	var kinds queue.Kind
	if !maps.Equal(old.Obj.Labels, now.Obj.Labels) || old.Terminating() != now.Terminating() {
		kinds |= queue.PodLabels
	}
	if queue.Shrunk(old, now) {
		kinds |= queue.PodShrunk
	}
	if kinds != 0 {
		s.queue.Move(queue.Event{Kind: kinds, OldPod: old, Pod: now})
	}
}

func (s *Scheduler) deletePod(obj *v1.Pod) {
	s.state.change(func() {
		s.gone(obj)
	})
}

// gone forgets a pod, wherever it is; the caller holds the state.
func (s *Scheduler) gone(obj *v1.Pod) {
	s.queue.Delete(obj.UID)
	s.explanations.forget(obj.UID)
	s.config.handles.Waiting.Reject(obj.UID)
	nominated := s.nominations.remove(obj.UID)
	if s.snapshot.RemovePod(obj.UID) || nominated {
		s.queue.Move(queue.Event{Kind: queue.PodRemoved, OldPod: snapshot.NewPod(obj)})
	}
}

func (s *Scheduler) addNode(n *v1.Node) {
	s.state.change(func() {
		s.snapshot.SetNode(n)
		s.queue.Move(queue.Event{Kind: queue.NodeAdded, Node: n})
	})
}

func (s *Scheduler) updateNode(old, now *v1.Node) {
	s.state.change(func() {
		s.snapshot.SetNode(now)
		kinds := nodeChanges(old, now)
		if s.hints.Wants(queue.NodeConditions | queue.NodeAnnotations | queue.NodeFeatures) {
			kinds |= rareNodeChanges(old, now)
		}
		if kinds != 0 {
			s.queue.Move(queue.Event{Kind: kinds, OldNode: old, Node: now})
		}
	})
}

// nodeChanges names what changed in a node that can matter to a plug-in.
func nodeChanges(old, now *v1.Node) queue.Kind {
	var kinds queue.Kind
	if !equality.Semantic.DeepEqual(old.Status.Allocatable, now.Status.Allocatable) {
		kinds |= queue.NodeAllocatable
	}
	if !maps.Equal(old.Labels, now.Labels) {
		kinds |= queue.NodeLabels
	}
	if old.Spec.Unschedulable != now.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints) {
		kinds |= queue.NodeTaints
	}
	return kinds
}

// rareNodeChanges names what changed in a node that few plug-ins ask for. The times of conditions are no change.
func rareNodeChanges(old, now *v1.Node) queue.Kind {
	var kinds queue.Kind
	if !slices.EqualFunc(old.Status.Conditions, now.Status.Conditions, func(a, b v1.NodeCondition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
	}) {
		kinds |= queue.NodeConditions
	}
	if !maps.Equal(old.Annotations, now.Annotations) {
		kinds |= queue.NodeAnnotations
	}
	if !slices.Equal(old.Status.DeclaredFeatures, now.Status.DeclaredFeatures) {
		kinds |= queue.NodeFeatures
	}
	return kinds
}

func (s *Scheduler) deleteNode(n *v1.Node) {
	s.state.change(func() {
		s.snapshot.RemoveNode(n.Name)
		s.queue.Move(queue.Event{Kind: queue.NodeRemoved, OldNode: n})
	})
}

func (s *Scheduler) addNamespace(n *v1.Namespace) {
	s.state.change(func() {
		s.snapshot.SetNamespace(n.Name, n.Labels)
	})
}

func (s *Scheduler) updateNamespace(old, now *v1.Namespace) {
	if maps.Equal(old.Labels, now.Labels) {
		return
	}
	s.addNamespace(now)
	s.state.change(func() {
		s.queue.Move(queue.Event{Kind: queue.NamespaceLabels})
	})
}

func (s *Scheduler) deleteNamespace(n *v1.Namespace) {
	s.state.change(func() {
		s.snapshot.RemoveNamespace(n.Name)
	})
}
