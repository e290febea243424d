package dynamicresources

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// claimsOf returns the claims that spec.resourceClaims of a pod names, in its order, or why one can't be used.
func claimsOf(pod *v1.Pod,
	get func(namespace, name string) (*resourcev1.ResourceClaim, error)) ([]*resourcev1.ResourceClaim, error) {
	var claims []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, generated, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil { // none is needed
			continue
		}
		claim, err := get(pod.Namespace, *name)
		switch {
		case err != nil:
			return nil, err
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		case generated:
			if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
				return nil, err
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// known reads claims from a snapshot.
func known(s *snapshot.Snapshot) func(namespace, name string) (*resourcev1.ResourceClaim, error) {
	return func(namespace, name string) (*resourcev1.ResourceClaim, error) {
		claim := s.ResourceClaim(types.NamespacedName{Namespace: namespace, Name: name})
		if claim == nil {
			return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaim"), name)
		}
		return claim, nil
	}
}

// collect finds the claims of the pod, and the special one for its extended resources, which comes last.
func (t *test) collect() *cycle.Refusal {
	claims, err := claimsOf(t.pod.Obj, known(t.snapshot))
	if err != nil {
		return refuse(err.Error())
	}
	t.claims = claims
	if t.plugin.Features.ExtendedResource && t.wantsExtended() {
		t.special = len(t.claims)
		t.claims = append(t.claims, t.specialClaim())
	}
	t.selectors = make([]matcher, len(t.claims))
	return nil
}

func reserved(claim *resourcev1.ResourceClaim, pod *v1.Pod) bool {
	for i := range claim.Status.ReservedFor {
		if claim.Status.ReservedFor[i].UID == pod.UID {
			return true
		}
	}
	return false
}
