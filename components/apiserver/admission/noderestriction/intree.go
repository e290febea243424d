package noderestriction

import corev1 "k8s.io/api/core/v1"

// older tells of which kind from before CSI a volume is.
type older struct{ aws, azureDisk, azureFile, cinder, google, portworx, vsphere bool }

// driver is the CSI driver that such volumes are served by, "" if there is none
// (https://kubernetes.io/docs/concepts/storage/volumes/#csi-migration).
func (o older) driver() string {
	switch {
	case o.aws:
		return "ebs.csi.aws.com"
	case o.azureDisk:
		return "disk.csi.azure.com"
	case o.azureFile:
		return "file.csi.azure.com"
	case o.cinder:
		return "cinder.csi.openstack.org"
	case o.google:
		return "pd.csi.storage.gke.io"
	case o.portworx:
		return "pxd.portworx.com"
	case o.vsphere:
		return "csi.vsphere.vmware.com"
	}
	return ""
}

// driverInline is the CSI driver of a volume that stands in a pod itself, "" if there is none.
func driverInline(v *corev1.VolumeSource) string {
	if v.CSI != nil {
		return v.CSI.Driver
	}
	return older{
		v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.AzureFile != nil, v.Cinder != nil,
		v.GCEPersistentDisk != nil, v.PortworxVolume != nil, v.VsphereVolume != nil,
	}.driver()
}

// driverOf is the CSI driver of a persistent volume, "" if there is none.
func driverOf(v *corev1.PersistentVolumeSource) string {
	if v.CSI != nil {
		return v.CSI.Driver
	}
	return older{
		v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.AzureFile != nil, v.Cinder != nil,
		v.GCEPersistentDisk != nil, v.PortworxVolume != nil, v.VsphereVolume != nil,
	}.driver()
}
