package noderestriction

import corev1 "k8s.io/api/core/v1"

// The CSI drivers that volumes of kinds from before CSI are served by
// (https://kubernetes.io/docs/concepts/storage/volumes/#csi-migration).
const (
	awsDriver       = "ebs.csi.aws.com"
	azureDiskDriver = "disk.csi.azure.com"
	azureFileDriver = "file.csi.azure.com"
	cinderDriver    = "cinder.csi.openstack.org"
	googleDriver    = "pd.csi.storage.gke.io"
	portworxDriver  = "pxd.portworx.com"
	vsphereDriver   = "csi.vsphere.vmware.com"
)

// driverInline is the CSI driver of a volume that stands in a pod itself, "" if there is none.
func driverInline(v *corev1.VolumeSource) string {
	switch {
	case v.CSI != nil:
		return v.CSI.Driver
	case v.AWSElasticBlockStore != nil:
		return awsDriver
	case v.AzureDisk != nil:
		return azureDiskDriver
	case v.AzureFile != nil:
		return azureFileDriver
	case v.Cinder != nil:
		return cinderDriver
	case v.GCEPersistentDisk != nil:
		return googleDriver
	case v.PortworxVolume != nil:
		return portworxDriver
	case v.VsphereVolume != nil:
		return vsphereDriver
	}
	return ""
}

// driverOf is the CSI driver of a persistent volume, "" if there is none.
func driverOf(v *corev1.PersistentVolumeSource) string {
	switch {
	case v.CSI != nil:
		return v.CSI.Driver
	case v.AWSElasticBlockStore != nil:
		return awsDriver
	case v.AzureDisk != nil:
		return azureDiskDriver
	case v.AzureFile != nil:
		return azureFileDriver
	case v.Cinder != nil:
		return cinderDriver
	case v.GCEPersistentDisk != nil:
		return googleDriver
	case v.PortworxVolume != nil:
		return portworxDriver
	case v.VsphereVolume != nil:
		return vsphereDriver
	}
	return ""
}
