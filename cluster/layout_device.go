package cluster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/addons"
	"quintet.dev/quintet/components/devicedriver"
)

// claimedResource is the extended resource for which pods get a claim of the driver's DeviceClass.
const claimedResource = "quintet.dev/accelerator"

// hasDeviceDriver tells whether pods of a driver of devices run on the nodes.
func (c *config) hasDeviceDriver() bool {
	return c.devices && !c.without[DeviceDriver] && c.hasPodNetwork()
}

// deviceDriver tells how the driver is deployed.
func (c *config) deviceDriver() addons.DeviceDriverOptions {
	return addons.DeviceDriverOptions{Driver: devicedriver.Name, ExtendedResource: claimedResource,
		Image: c.image(DeviceDriver), Args: c.args[DeviceDriver]}
}

func (s *start) deviceDriverReady(ctx context.Context) error {
	config := s.cluster.config
	if !config.hasDeviceDriver() || config.without[ControllerManager] || config.without[Scheduler] {
		return nil // nothing makes or places its pods
	}
	return s.cluster.WaitDeviceDriver(ctx)
}

// WaitDeviceDriver returns when the driver of WithDeviceDriver is ready on every node: the pods of its DaemonSet run,
// and what they serve by their arguments is known (the extended resource, or a ResourceSlice).
func (c *Cluster) WaitDeviceDriver(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		published, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
			FieldSelector: resourcev1.ResourceSliceSelectorDriver + "=" + devicedriver.Name})
		if err != nil {
			return err
		}
		ready := readyDeviceNodes(nodes.Items, published.Items)
		if want := len(c.Component(Node).Members); ready < want {
			return fmt.Errorf("device driver %s is ready on %d of %d nodes", devicedriver.Name, ready, want)
		}
		return nil
	})
}

// readyDeviceNodes counts the nodes that have devices of the driver of either kind.
func readyDeviceNodes(nodes []v1.Node, published []resourcev1.ResourceSlice) int {
	publishes := map[string]bool{}
	for i := range published {
		if name := published[i].Spec.NodeName; name != nil {
			publishes[*name] = true // a node that was removed may be among them
		}
	}
	ready := 0
	for i := range nodes {
		if _, has := nodes[i].Status.Allocatable[devicedriver.ResourceName]; has || publishes[nodes[i].Name] {
			ready++
		}
	}
	return ready
}
