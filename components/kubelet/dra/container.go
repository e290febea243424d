package dra

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// use is a claim of a container with the requests that it refers to; "" is all of the claim.
type use struct {
	claim    string
	requests []string
}

// uses returns the claims of a container.
func uses(pod *v1.Pod, c *v1.Container) ([]use, error) {
	var list []use
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		var requests []string
		for _, claim := range c.Resources.Claims {
			if claim.Name == podClaim.Name {
				requests = append(requests, claim.Request)
			}
		}
		if len(requests) == 0 {
			continue
		}
		name, _, err := resourceclaim.Name(pod, podClaim)
		if err != nil {
			return nil, err
		}
		if name != nil {
			list = append(list, use{*name, requests})
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		var requests []string
		for _, mapping := range extended.RequestMappings {
			if q := c.Resources.Requests[v1.ResourceName(mapping.ResourceName)]; mapping.ContainerName == c.Name &&
				!q.IsZero() {
				requests = append(requests, mapping.RequestName)
			}
		}
		if len(requests) > 0 {
			list = append(list, use{extended.ResourceClaimName, requests})
		}
	}
	return list, nil
}

// Container returns the CDI devices that a container gets for its claims, each once.
func (m *Manager) Container(pod *v1.Pod, c *v1.Container) ([]string, error) {
	list, err := uses(pod, c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for _, u := range list {
		claim := m.claims[types.NamespacedName{Namespace: pod.Namespace, Name: u.claim}]
		if claim == nil {
			return nil, fmt.Errorf("unable to get claim info for ResourceClaim %s in namespace %s", u.claim, pod.Namespace)
		}
		for _, driver := range sortedKeys(claim.Drivers) {
			for _, device := range claim.Drivers[driver] {
				if !device.serves(u.requests) {
					continue
				}
				for _, id := range device.CDI {
					if !slices.Contains(ids, id) {
						ids = append(ids, id)
					}
				}
			}
		}
	}
	return ids, nil
}

// claimOf returns a copy of the claim that a pod has under a name of its own; nil if it has none.
func (m *Manager) claimOf(pod *v1.Pod, name string) *Claim {
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].Name != name {
			continue
		}
		actual, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || actual == nil {
			return nil
		}
		return m.claimNamed(pod.Namespace, *actual)
	}
	return nil
}

// claimNamed returns a copy of a claim; nil if the node does not have it.
func (m *Manager) claimNamed(namespace, name string) *Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	if claim := m.claims[types.NamespacedName{Namespace: namespace, Name: name}]; claim != nil {
		return claim.clone()
	}
	return nil
}

// serves tells that a device belongs to one of the requests.
func (d *Device) serves(requests []string) bool {
	return len(d.Requests) == 0 || slices.ContainsFunc(requests, func(request string) bool {
		return request == "" || slices.ContainsFunc(d.Requests, func(own string) bool {
			return own == request || resourceclaim.BaseRequestRef(own) == request
		})
	})
}

// Claims returns the claims of a container, as they are prepared. They are copies.
func (m *Manager) Claims(pod *v1.Pod, c *v1.Container) ([]*Claim, error) {
	list, err := uses(pod, c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var claims []*Claim
	for _, u := range list {
		claim := m.claims[types.NamespacedName{Namespace: pod.Namespace, Name: u.claim}]
		if claim == nil {
			return nil, fmt.Errorf("unable to get information for ResourceClaim %s", u.claim)
		}
		claims = append(claims, claim.clone())
	}
	return claims, nil
}
