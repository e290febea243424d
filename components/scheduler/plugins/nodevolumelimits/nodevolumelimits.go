// Package nodevolumelimits refuses nodes to which no more volumes of a CSI driver can be attached
// (https://kubernetes.io/docs/concepts/storage/storage-limits/).
package nodevolumelimits

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodeVolumeLimits"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) exceed max volume count"}}

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that limits of nodes help, pods with claims that go, and volumes that are detached.
func (Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.CSINodeAdded | queue.CSINodeUpdated, Helps: limitsGrew},
		{Kinds: queue.PodRemoved, Helps: func(_ *snapshot.Pod, e queue.Event) bool {
			return e.OldPod != nil && attaches(e.OldPod)
		}},
		{Kinds: queue.ClaimAdded, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			claim, ok := e.New.(*v1.PersistentVolumeClaim)
			return ok && p.Uses(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}},
		{Kinds: queue.AttachmentRemoved},
		{Kinds: queue.NodeAdded},
	}
}

// limitsGrew tells whether a CSINode is new or has a higher limit, or none, for some driver.
func limitsGrew(_ *snapshot.Pod, e queue.Event) bool {
	now, ok := e.New.(*storagev1.CSINode)
	old, had := e.Old.(*storagev1.CSINode)
	if !ok || !had {
		return ok
	}
	before, after := limitsOf(old), limitsOf(now)
	for driver, limit := range before {
		if count, limited := after[driver]; !limited || count > limit {
			return true
		}
	}
	return false
}

// attaches tells whether a pod has volumes that may count.
func attaches(p *snapshot.Pod) bool {
	if len(p.Claims) > 0 {
		return true
	}
	for i := range p.Obj.Spec.Volumes {
		if p.Obj.Spec.Volumes[i].CSI != nil {
			return true
		}
	}
	return false
}

// limitsOf returns how many volumes of each driver a node takes; drivers without a limit are left out.
func limitsOf(n *storagev1.CSINode) map[string]int {
	limits := map[string]int{}
	for _, d := range n.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return limits
}

// Filter collects the volumes of the pod.
func (Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if len(p.Claims) == 0 {
		return nil, nil
	}
	wanted := map[attachment]struct{}{}
	for _, c := range p.Claims {
		if s.Claim(c.NamespacedName) == nil {
			why := fmt.Sprintf("persistentvolumeclaim %q not found", c.Name)
			return nil, &cycle.Refusal{Reasons: []string{why}, Unresolvable: true}
		}
	}
	collect(s, p, wanted)
	if len(wanted) == 0 {
		return nil, nil
	}
	t := &test{snapshot: s, wanted: wanted, drivers: map[string]int{}, attached: map[attachment]struct{}{}}
	for a := range wanted {
		t.drivers[a.driver]++
	}
	return t, nil
}

// attachment is a volume that a driver attaches.
type attachment struct{ driver, handle string }

// collect adds the volumes of a pod's claims. A claim without a volume yet counts for the driver that will provision
// it.
func collect(s *snapshot.Snapshot, p *snapshot.Pod, into map[attachment]struct{}) {
	for _, c := range p.Claims {
		claim := s.Claim(c.NamespacedName)
		if claim == nil {
			continue
		}
		if pv := s.Volume(claim.Spec.VolumeName); pv != nil {
			if pv.Spec.CSI != nil {
				into[attachment{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}] = struct{}{}
			}
			continue
		}
		if class := s.StorageClass(volume.GetPersistentVolumeClaimClass(claim)); class != nil {
			into[attachment{class.Provisioner, "claim\x00" + c.String()}] = struct{}{}
		}
	}
}

type test struct {
	snapshot *snapshot.Snapshot
	wanted   map[attachment]struct{}
	drivers  map[string]int // how many of wanted each attaches
	attached map[attachment]struct{}
}

// Check implements cycle.Test.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	info := t.snapshot.CSINode(n.Name)
	if info == nil || !t.near(n, info) {
		return nil
	}
	return t.count(n, limitsOf(info))
}

// near tells whether a limit would be exceeded if all claims of the node's pods and all its attachments were volumes of
// the same driver, and none of them the same.
func (t *test) near(n *snapshot.Node, info *storagev1.CSINode) bool {
	most := n.ClaimUses + t.snapshot.AttachmentCount(n.Name)
	for i := range info.Spec.Drivers {
		d := &info.Spec.Drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			continue
		}
		if more := t.drivers[d.Name]; more > 0 && most+more > int(*d.Allocatable.Count) {
			return true
		}
	}
	return false
}

// count refuses a node that would exceed a limit.
func (t *test) count(n *snapshot.Node, limits map[string]int) *cycle.Refusal {
	attached := t.attached
	clear(attached)
	for _, p := range n.Pods {
		collect(t.snapshot, p, attached)
	}
	t.snapshot.Attachments(n.Name, func(a *storagev1.VolumeAttachment) {
		if a.Spec.Source.PersistentVolumeName == nil {
			return
		}
		if pv := t.snapshot.Volume(*a.Spec.Source.PersistentVolumeName); pv != nil && pv.Spec.CSI != nil {
			attached[attachment{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}] = struct{}{}
		}
	})
	counts, more := map[string]int{}, map[string]int{}
	for a := range attached {
		counts[a.driver]++
	}
	for a := range t.wanted {
		if _, ok := attached[a]; !ok {
			more[a.driver]++
		}
	}
	for driver, count := range more {
		if limit, ok := limits[driver]; ok && counts[driver]+count > limit {
			return refusal
		}
	}
	return nil
}
