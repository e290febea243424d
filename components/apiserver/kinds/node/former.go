package node

import (
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// FromV1alpha1 converts a runtime class, which in v1alpha1 has all it says in a spec.
func FromV1alpha1(c *nodev1alpha1.RuntimeClass) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: c.ObjectMeta, Handler: c.Spec.RuntimeHandler,
		Overhead: twin.Of[nodev1.Overhead](c.Spec.Overhead), Scheduling: twin.Of[nodev1.Scheduling](c.Spec.Scheduling),
	}
}
