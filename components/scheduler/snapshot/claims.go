package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Claim is a PersistentVolumeClaim that a pod uses.
type Claim struct {
	types.NamespacedName
	// Ephemeral tells that the claim is made for the pod, from a template in it.
	Ephemeral bool
}

// claimsOf lists the claims of a pod in the order of its volumes; nil for none.
func claimsOf(pod *v1.Pod) []Claim {
	var claims []Claim
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := types.NamespacedName{Namespace: pod.Namespace}
		switch {
		case v.PersistentVolumeClaim != nil:
			name.Name = v.PersistentVolumeClaim.ClaimName
			claims = append(claims, Claim{NamespacedName: name})
		case v.Ephemeral != nil:
			name.Name = ephemeral.VolumeClaimName(pod, v)
			claims = append(claims, Claim{NamespacedName: name, Ephemeral: true})
		}
	}
	return claims
}

// ClaimUsers returns how many pods on nodes use a claim.
func (s *Snapshot) ClaimUsers(name types.NamespacedName) int { return s.claimUsers[name] }

func (s *Snapshot) useClaims(p *Pod, sign int) {
	for _, c := range p.Claims {
		if s.claimUsers[c.NamespacedName] += sign; s.claimUsers[c.NamespacedName] == 0 {
			delete(s.claimUsers, c.NamespacedName)
		}
	}
}

// Uses tells whether the pod uses a claim.
func (p *Pod) Uses(name types.NamespacedName) bool {
	for _, c := range p.Claims {
		if c.NamespacedName == name {
			return true
		}
	}
	return false
}
