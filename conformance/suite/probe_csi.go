package suite

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
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
	c.Features[CSIBlock] = false
	if len(classes) > 0 {
		c.Features[CSIBlock], err = c.makesDevices(ctx, classes[0].Class.Name)
	}
	return err
}

// makesDevices tells whether a claim of a class can get a device. The scheduler's annotation has the volume of a class
// that waits for a pod made without one.
func (c *Cluster) makesDevices(ctx context.Context, class string) (bool, error) {
	nodes, err := c.readyNodes(ctx)
	if err != nil || len(nodes) == 0 {
		return false, err
	}
	return c.inProbeNamespace(ctx, func(ctx context.Context, namespace string) (bool, error) {
		claims := c.Client.CoreV1().PersistentVolumeClaims(namespace)
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "device",
				Annotations: map[string]string{"volume.kubernetes.io/selected-node": nodes[0].Name}},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
				VolumeMode:  ptr.To(corev1.PersistentVolumeBlock),
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}},
		}
		if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return false, err
		}
		return comes(ctx, func(ctx context.Context) (bool, error) {
			claim, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
			return err == nil && claim.Status.Phase == corev1.ClaimBound, err
		})
	})
}
