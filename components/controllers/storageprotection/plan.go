// Package storageprotection keeps claims that pods use, volumes that are bound to claims, and the attributes classes of
// both from being removed while they are in use
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection).
package storageprotection

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

const (
	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// change is the action on an object's finalizer.
type change int

const (
	keep   change = iota
	add           // protect an object that came in without protection
	remove        // let a deleted object go, unless it is in use
)

func decide(obj metav1.Object, finalizer string) change {
	protected := slices.Contains(obj.GetFinalizers(), finalizer)
	switch deleted := obj.GetDeletionTimestamp() != nil; {
	case deleted && protected:
		return remove
	case !deleted && !protected:
		return add
	}
	return keep
}

// finalizers returns those of obj after c.
func finalizers(obj metav1.Object, finalizer string, c change) []string {
	all := slices.Clone(obj.GetFinalizers())
	switch c {
	case add:
		return append(all, finalizer)
	case remove:
		return slices.DeleteFunc(all, func(f string) bool { return f == finalizer })
	}
	return all
}

// claimsOf returns the names of the claims that the pod's volumes are made from, be they its own or not.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, volume))
		}
	}
	return names
}

// uses tells whether the pod holds on to the claim. One without a node does not: no kubelet starts a pod whose claim is
// being deleted. One that has ended does: its volumes may still be mounted.
func uses(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case volume.Ephemeral != nil && ephemeral.VolumeClaimName(pod, volume) == claim.Name &&
			ephemeral.VolumeIsForPod(pod, claim) == nil:
			return true
		}
	}
	return false
}
