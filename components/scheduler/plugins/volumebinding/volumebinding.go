// Package volumebinding finds nodes that a pod's claims can be bound on, and binds them before the pod
// (https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode,
// https://kubernetes.io/docs/concepts/storage/storage-capacity/).
package volumebinding

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "VolumeBinding"

// The reasons, as upstream words them.
const (
	reasonBindConflict = "node(s) didn't find available persistent volumes to bind"
	reasonNodeConflict = "node(s) didn't match PersistentVolume's node affinity"
	reasonNoSpace      = "node(s) did not have enough free storage"
	reasonNoVolume     = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	reasonImmediate    = "pod has unbound immediate PersistentVolumeClaims"
)

// DefaultTimeout is how long PreBind waits until claims are bound.
const DefaultTimeout = 10 * time.Minute

// Plugin is a cycle.Filter, a commit.Reserve and a commit.PreBind.
type Plugin struct {
	Client  kubernetes.Interface
	Timeout time.Duration
	// Failed is told the stage at which claims could not be bound, and may be nil.
	Failed func(stage string)
}

// The stages that can fail.
const (
	stageAssume = "assume"
	stageBind   = "bind"
)

func (f *Plugin) failed(stage string, err error) *commit.Status {
	if f.Failed != nil {
		f.Failed(stage)
	}
	return commit.Failed(Name, err)
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Filter refuses pods whose claims can't be bound at all, and tests nodes for the claims of others.
func (*Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	if len(p.Claims) == 0 {
		return nil, nil
	}
	t := &test{pod: p, snapshot: s}
	for _, c := range p.Claims {
		claim := s.Claim(c.NamespacedName)
		if why := unusable(p, c, claim); why != "" {
			return nil, refuse(why)
		}
	}
	immediate := false
	for _, c := range p.Claims {
		claim := s.Claim(c.NamespacedName)
		switch {
		case fullyBound(claim):
			t.bound = append(t.bound, boundClaim{claim, s.Volume(claim.Spec.VolumeName)})
		case claim.Spec.VolumeName == "" && waitsForConsumer(s, claim):
			t.add(claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return nil, refuse(reasonImmediate)
	}
	t.order()
	return t, nil
}

// unusable tells why a claim can't be used by the pod, or "".
func unusable(p *snapshot.Pod, c snapshot.Claim, claim *v1.PersistentVolumeClaim) string {
	switch {
	case claim == nil && c.Ephemeral:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", c.Name)
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", c.Name)
	case claim.Status.Phase == v1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", claim.Name,
			claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", claim.Name)
	case c.Ephemeral:
		if err := ephemeral.VolumeIsForPod(p.Obj, claim); err != nil {
			return err.Error()
		}
	}
	return ""
}

func refuse(reasons ...string) *cycle.Refusal {
	return &cycle.Refusal{Reasons: reasons, Unresolvable: true}
}

// fullyBound tells whether the binding of a claim is complete.
func fullyBound(claim *v1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[volume.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && completed
}

// waitsForConsumer tells whether a claim's class leaves its binding to the scheduler.
func waitsForConsumer(s *snapshot.Snapshot, claim *v1.PersistentVolumeClaim) bool {
	class := s.StorageClass(volume.GetPersistentVolumeClaimClass(claim))
	return class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func nameOf(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}
