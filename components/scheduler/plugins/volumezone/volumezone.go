// Package volumezone refuses nodes outside the zone or region that a bound volume's labels name.
package volumezone

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "VolumeZone"

var refusal = &cycle.Refusal{Reasons: []string{"node(s) had no available volume zone"}, Unresolvable: true}

// topologyLabels are the labels of a volume that bind it to nodes. Their older names may be on either side.
var topologyLabels = []struct{ name, stable string }{
	{v1.LabelFailureDomainBetaZone, v1.LabelTopologyZone},
	{v1.LabelFailureDomainBetaRegion, v1.LabelTopologyRegion},
	{v1.LabelTopologyZone, v1.LabelTopologyZone},
	{v1.LabelTopologyRegion, v1.LabelTopologyRegion},
}

// Plugin is a cycle.Filter.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints say that new labels of nodes and volumes help, and the pod's claims.
func (Plugin) Hints() []queue.Hint {
	return []queue.Hint{
		{Kinds: queue.NodeAdded | queue.NodeLabels},
		{Kinds: queue.VolumeAdded | queue.VolumeUpdated, Helps: func(_ *snapshot.Pod, e queue.Event) bool {
			now, ok := e.New.(*v1.PersistentVolume)
			if !ok {
				return false
			}
			old, _ := e.Old.(*v1.PersistentVolume)
			return old == nil || !sameTopology(old, now)
		}},
		{Kinds: queue.ClaimAdded | queue.ClaimUpdated, Helps: func(p *snapshot.Pod, e queue.Event) bool {
			claim, ok := e.New.(*v1.PersistentVolumeClaim)
			return ok && p.Uses(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}},
		{Kinds: queue.StorageClassAdded},
	}
}

func sameTopology(a, b *v1.PersistentVolume) bool {
	for _, label := range topologyLabels {
		if a.Labels[label.name] != b.Labels[label.name] {
			return false
		}
	}
	return true
}

// requirement is a label of a volume: nodes need one of its values.
type requirement struct {
	name, stable string
	values       map[string]bool
}

// Filter collects what the volumes' labels require.
func (Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	var t test
	for _, c := range p.Claims {
		pv, why := volumeOf(s, c)
		if why != "" {
			return nil, &cycle.Refusal{Reasons: []string{why}, Unresolvable: true}
		}
		if pv == nil {
			continue
		}
		for _, label := range topologyLabels {
			if value, ok := pv.Labels[label.name]; ok {
				t = append(t, requirement{label.name, label.stable, valuesOf(value)})
			}
		}
	}
	if len(t) == 0 {
		return nil, nil
	}
	return t, nil
}

// volumeOf returns nil for a claim that is bound once the pod has a node.
func volumeOf(s *snapshot.Snapshot, c snapshot.Claim) (*v1.PersistentVolume, string) {
	claim := s.Claim(c.NamespacedName)
	if claim == nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %q not found", c.Name)
	}
	if claim.Spec.VolumeName == "" {
		name := volume.GetPersistentVolumeClaimClass(claim)
		if name == "" {
			return nil, "PersistentVolumeClaim had no pv name and storageClass name"
		}
		class := s.StorageClass(name)
		switch {
		case class == nil:
			return nil, fmt.Sprintf("storageclass.storage.k8s.io %q not found", name)
		case class.VolumeBindingMode == nil:
			return nil, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", name)
		case *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
			return nil, ""
		}
		return nil, "PersistentVolume had no name"
	}
	pv := s.Volume(claim.Spec.VolumeName)
	if pv == nil {
		return nil, fmt.Sprintf("persistentvolume %q not found", claim.Spec.VolumeName)
	}
	return pv, ""
}

// valuesOf splits a label that names several zones.
func valuesOf(label string) map[string]bool {
	values := map[string]bool{}
	for _, value := range strings.Split(label, "__") {
		values[strings.TrimSpace(value)] = true
	}
	return values
}

type test []requirement

// Check implements cycle.Test. A node without any such label is in no zone, and not refused.
func (t test) Check(n *snapshot.Node) *cycle.Refusal {
	zoned := false
	for _, label := range topologyLabels {
		_, ok := n.Obj.Labels[label.name]
		zoned = zoned || ok
	}
	if !zoned {
		return nil
	}
	for _, r := range t {
		value, ok := n.Obj.Labels[r.name]
		if !ok {
			value, ok = n.Obj.Labels[r.stable]
		}
		if !ok || !r.values[value] {
			return refusal
		}
	}
	return nil
}
