package node

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/internal/resources"
)

// resetDevices makes the extended resources of a node that was registered before 0, where they are not true any more:
// the drivers of its devices have yet to tell what there is.
func (n *Node) resetDevices(ctx context.Context, node *v1.Node) (*v1.Node, error) {
	if n.ResetDevices == nil || !n.ResetDevices() {
		return node, nil
	}
	updated := node.DeepCopy()
	for _, list := range []v1.ResourceList{updated.Status.Capacity, updated.Status.Allocatable} {
		for name := range list {
			if resources.Extended(name) {
				list[name] = *resource.NewQuantity(0, resource.DecimalSI)
			}
		}
	}
	if equality.Semantic.DeepEqual(&node.Status, &updated.Status) {
		return node, nil
	}
	return n.patch(ctx, node, updated, "status")
}
