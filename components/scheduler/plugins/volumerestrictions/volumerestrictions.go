// Package volumerestrictions refuses nodes for claims and disks that only one pod may use: claims with the access mode
// ReadWriteOncePod (KEP-2485), and disks that their protocol lets one node mount.
package volumerestrictions

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "VolumeRestrictions"

var (
	refusalDisk = &cycle.Refusal{Reasons: []string{"node(s) had no available disk"}}
	refusalUsed = &cycle.Refusal{Reasons: []string{
		"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"}}
)

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that a pod is helped when another one with one of its claims or disks goes, by its claims and by new nodes.
func (Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.PodRemoved, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			return e.OldPod != nil && (sharesClaim(p, e.OldPod) || conflicts(disksOf(p), e.OldPod))
		}},
		{Kinds: queue.NodeAdded},
		{Kinds: queue.ClaimAdded | queue.ClaimUpdated, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			claim, ok := e.New.(*v1.PersistentVolumeClaim)
			return ok && p.Uses(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}},
	}
}

func sharesClaim(p, other *snapshot.Pod) bool {
	for _, c := range p.Claims {
		if other.Uses(c.NamespacedName) {
			return true
		}
	}
	return false
}

// Filter tests for claims and disks in use.
func (Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	t := &test{disks: disksOf(p)}
	for _, c := range p.Claims {
		claim := s.Claim(c.NamespacedName)
		if claim == nil {
			why := fmt.Sprintf("persistentvolumeclaim %q not found", c.Name)
			return nil, &cycle.Refusal{Reasons: []string{why}, Unresolvable: true}
		}
		if !exclusive(claim) {
			continue
		}
		t.exclusive = append(t.exclusive, c.NamespacedName)
		if s.ClaimUsers(c.NamespacedName) > 0 {
			t.users++
		}
	}
	if len(t.disks) == 0 && len(t.exclusive) == 0 {
		return nil, nil
	}
	return t, nil
}

func exclusive(claim *v1.PersistentVolumeClaim) bool {
	for _, mode := range claim.Spec.AccessModes {
		if mode == v1.ReadWriteOncePod {
			return true
		}
	}
	return false
}

type test struct {
	disks     []*v1.Volume
	exclusive []types.NamespacedName
	users     int // of the exclusive claims
}

// Follow implements cycle.PreFilterExtensions: preempted pods free their claims on all nodes.
func (t *test) Follow(p *snapshot.Pod, _ *snapshot.Node, sign int) {
	for _, name := range t.exclusive {
		if p.Uses(name) {
			t.users += sign
		}
	}
}

// Check implements cycle.Test.
func (t *test) Check(n *snapshot.Node) *cycle.Refusal {
	if len(t.disks) > 0 {
		for _, p := range n.Pods {
			if conflicts(t.disks, p) {
				return refusalDisk
			}
		}
	}
	if t.users > 0 {
		return refusalUsed
	}
	return nil
}
