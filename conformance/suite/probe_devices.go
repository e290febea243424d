package suite

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the device driver for tests is found by, and how devices are made unhealthy: a node's annotation lists their
// names, each with "=" and a reason after it.
const (
	DeviceResource      = "quintet.dev/device"
	DeviceDriver        = "device.quintet.dev" // of ResourceSlices; and the DeviceClass of the same name
	UnhealthyAnnotation = DeviceDriver + "/unhealthy"
)

// DevicesOf returns how many devices of the extended resource pods of a node may have.
func DevicesOf(node *corev1.Node) int64 {
	n := node.Status.Allocatable[DeviceResource]
	return n.Value()
}

// ClaimSlices lists what the driver publishes for nodes that run pods, in the order of nodes. Servers without
// resource.k8s.io/v1 have none.
func (c *Cluster) ClaimSlices(ctx context.Context, nodes []corev1.Node) ([]resourcev1.ResourceSlice, error) {
	list, err := c.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourcev1.ResourceSliceSelectorDriver + "=" + DeviceDriver})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var found []resourcev1.ResourceSlice
	for i := range nodes {
		for _, slice := range list.Items {
			if name := slice.Spec.NodeName; name != nil && *name == nodes[i].Name && len(slice.Spec.Devices) > 0 {
				found = append(found, slice)
			}
		}
	}
	return found, nil
}

// probeDevices looks for the devices of the driver.
func (c *Cluster) probeDevices(ctx context.Context) error {
	nodes, err := c.readyNodes(ctx)
	if err != nil {
		return err
	}
	c.Features[DevicePlugin] = slices.ContainsFunc(nodes, func(n corev1.Node) bool { return DevicesOf(&n) > 0 })
	published, err := c.ClaimSlices(ctx, nodes)
	c.Features[ClaimDevices] = len(published) > 0
	return err
}
