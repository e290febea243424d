package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/addons"
	"quintet.dev/quintet/components/csidriver"
)

// hasCSIDriver tells whether pods of a CSI driver run on the nodes.
func (c *config) hasCSIDriver() bool { return c.csi && !c.without[CSIDriver] && c.hasPodNetwork() }

// csiDriver tells how the driver is deployed.
func (c *config) csiDriver() addons.CSIDriverOptions {
	return addons.CSIDriverOptions{Driver: csidriver.Name, Image: c.image(CSIDriver), Args: c.args[CSIDriver]}
}

func (s *start) csiDriverReady(ctx context.Context) error {
	config := s.cluster.config
	if !config.hasCSIDriver() || config.without[ControllerManager] || config.without[Scheduler] {
		return nil // nothing makes or places its pods
	}
	return s.cluster.WaitCSIDriver(ctx)
}

// WaitCSIDriver returns when the driver of WithCSIDriver is registered on every node.
func (c *Cluster) WaitCSIDriver(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		nodes, err := client.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		registered := 0
		for i := range nodes.Items {
			for _, driver := range nodes.Items[i].Spec.Drivers {
				if driver.Name == csidriver.Name {
					registered++
				}
			}
		}
		if want := len(c.Component(Node).Members); registered < want {
			return fmt.Errorf("CSI driver %s is registered on %d of %d nodes", csidriver.Name, registered, want)
		}
		return nil
	})
}
