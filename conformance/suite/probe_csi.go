package suite

import (
	"context"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CSIClass is a StorageClass whose volumes a CSI driver makes.
type CSIClass struct {
	Class  storagev1.StorageClass
	Driver storagev1.CSIDriver
}

// Inline tells whether pods may describe volumes of the driver themselves.
func (c CSIClass) Inline() bool {
	return slices.Contains(c.Driver.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral)
}

// Expandable tells whether claims of the class may ask for more later.
func (c CSIClass) Expandable() bool {
	return c.Class.AllowVolumeExpansion != nil && *c.Class.AllowVolumeExpansion
}

// CSIClasses lists the classes of CSI drivers.
func CSIClasses(ctx context.Context, client kubernetes.Interface) ([]CSIClass, error) {
	drivers, err := client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	classes, err := client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []CSIClass
	for _, class := range classes.Items {
		for _, driver := range drivers.Items {
			if driver.Name == class.Provisioner {
				found = append(found, CSIClass{class, driver})
			}
		}
	}
	return found, nil
}

// probeCSI looks for classes of CSI drivers.
func (c *Cluster) probeCSI(ctx context.Context) error {
	classes, err := CSIClasses(ctx, c.Client)
	if err != nil {
		return err
	}
	c.Features[CSIVolumes] = len(classes) > 0
	c.Features[CSIInlineVolumes] = slices.ContainsFunc(classes, CSIClass.Inline)
	c.Features[CSIExpansion] = slices.ContainsFunc(classes, CSIClass.Expandable)
	return nil
}
