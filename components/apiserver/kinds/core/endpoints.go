package core

import corev1 "k8s.io/api/core/v1"

// DefaultEndpoints sets the defaults of endpoints.
func DefaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			setString(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}
