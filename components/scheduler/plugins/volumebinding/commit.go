package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// The time between two looks at the claims, which are known from a watch, while they are being bound.
const (
	lookInterval     = 50 * time.Millisecond
	longLookInterval = time.Second
)

// nextInterval grows with the time that the binding has taken, and delays its end by a quarter of that at most:
// thousands of pods may wait for a slow binder at once, and each look locks the snapshot.
func nextInterval(last time.Duration) time.Duration { return min(last+last/4, longLookInterval) }

func planOf(p *commit.Placement) *plan {
	decided, _ := p.Kept[Name].(*plan)
	return decided
}

// Reserve assumes the volumes to be bound to the claims, and the node to be selected for those to provision.
func (f *Plugin) Reserve(_ context.Context, p *commit.Placement) *commit.Status {
	todo := planOf(p)
	if todo == nil {
		return nil
	}
	var err error
	p.Snapshot(func(s *snapshot.Snapshot) { err = todo.assume(s, p.Node) })
	if err != nil {
		return f.failed(stageAssume, err)
	}
	return nil
}

var errOutdated = errors.New("a volume or claim has changed")

// assume replaces the objects of the plan by what they are to become.
func (t *plan) assume(s *snapshot.Snapshot, node string) error {
	for i := range t.static {
		b := &t.static[i]
		bound, changed, err := volume.GetBindVolumeToClaim(b.volume, b.claim)
		if err != nil {
			return err
		}
		if changed && !s.AssumeVolume(bound) {
			return errOutdated
		}
		b.volume = bound
	}
	for i, claim := range t.provision {
		selected := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&selected.ObjectMeta, volume.AnnSelectedNode, node)
		if !s.AssumeClaim(selected) {
			return errOutdated
		}
		t.provision[i] = selected
	}
	return nil
}

// Unreserve takes the assumptions back.
func (*Plugin) Unreserve(_ context.Context, p *commit.Placement) {
	todo := planOf(p)
	if todo == nil {
		return
	}
	p.Snapshot(func(s *snapshot.Snapshot) {
		for _, b := range todo.static {
			s.RestoreVolume(b.volume.Name)
		}
		for _, claim := range todo.provision {
			s.RestoreClaim(nameOf(claim))
		}
	})
}

// PreFlight tells whether claims are to be bound.
func (*Plugin) PreFlight(_ context.Context, p *commit.Placement) (bool, *commit.Status) {
	return planOf(p) != nil, nil
}

// PreBind writes the bindings and selected nodes, and waits until the volume controllers and provisioners have bound
// all claims.
func (f *Plugin) PreBind(ctx context.Context, p *commit.Placement) *commit.Status {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	todo := planOf(p)
	if err := f.write(ctx, todo); err != nil {
		return f.failed(stageBind, err)
	}
	for interval := lookInterval; ; interval = nextInterval(interval) {
		var done bool
		var err error
		p.Snapshot(func(s *snapshot.Snapshot) { done, err = todo.bound(s, p.Node) })
		if done {
			return nil
		}
		if err == nil {
			err = f.exists(ctx, p)
		}
		if err != nil {
			return f.failed(stageBind, fmt.Errorf("binding volumes: %w", err))
		}
		select {
		case <-ctx.Done():
			return f.failed(stageBind, fmt.Errorf("binding volumes: %w", ctx.Err()))
		case <-time.After(interval):
		}
	}
}

// exists fails once the pod is gone.
func (*Plugin) exists(ctx context.Context, p *commit.Placement) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	gone := false
	p.Snapshot(func(s *snapshot.Snapshot) { gone = s.Pod(p.Pod.UID()) == nil })
	if gone {
		return fmt.Errorf("pod does not exist any more: pod %q not found", p.Pod.Obj.Name)
	}
	return nil
}

// write makes the API server know of the plan.
func (f *Plugin) write(ctx context.Context, todo *plan) error {
	for i := range todo.static {
		b := &todo.static[i]
		now, err := f.Client.CoreV1().PersistentVolumes().Update(ctx, b.volume, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		b.volume = now
	}
	for i, claim := range todo.provision {
		now, err := f.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim,
			metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		todo.provision[i] = now
	}
	return nil
}

// bound tells whether all claims are bound, or why they won't be on this node.
func (t *plan) bound(s *snapshot.Snapshot, node string) (bool, error) {
	n := s.Node(node)
	if n == nil {
		return false, fmt.Errorf("failed to get node %q: node %q not found", node, node)
	}
	for _, b := range t.static {
		pv := s.ConfirmedVolume(b.volume.Name)
		if pv == nil {
			return false, fmt.Errorf("failed to check binding: persistentvolume %q not found", b.volume.Name)
		}
		if older(pv, b.volume) {
			return false, nil
		}
		if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
			return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
		}
	}
	provisioned := map[types.NamespacedName]*v1.PersistentVolumeClaim{}
	for _, claim := range t.provision {
		provisioned[nameOf(claim)] = claim
	}
	complete := true
	for _, claim := range t.all {
		done, err := claimBound(s, n.Obj, nameOf(claim), provisioned[nameOf(claim)])
		if err != nil {
			return false, err
		}
		complete = complete && done
	}
	return complete, nil
}

// claimBound looks at one claim; written is what was written of it to have it provisioned, or nil.
func claimBound(s *snapshot.Snapshot, node *v1.Node, name types.NamespacedName,
	written *v1.PersistentVolumeClaim) (bool, error) {
	claim := s.ConfirmedClaim(name)
	if claim == nil {
		return false, fmt.Errorf("failed to get pvc %q: persistentvolumeclaim %q not found", name, name.Name)
	}
	if written != nil {
		if older(claim, written) {
			return false, nil
		}
		if selected := claim.Annotations[volume.AnnSelectedNode]; !fullyBound(claim) && selected != node.Name {
			return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
	}
	if claim.Spec.VolumeName == "" {
		return false, nil
	}
	if pv := s.ConfirmedVolume(claim.Spec.VolumeName); pv == nil {
		return false, nil // its informer may come later
	} else if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
		return false, fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, node.Name, err)
	}
	return fullyBound(claim), nil
}

// older tells whether a version of an object precedes another one.
func older(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
