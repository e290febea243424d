package podspec

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PositiveQuantity checks an amount that must not be zero.
func PositiveQuantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	errs := Quantity(name, q, at)
	if q.Sign() == 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be greater than zero"))
	}
	return errs
}

// networkSources checks the volumes that come over the network, or from a cloud.
func (s *sources) networkSources(v *corev1.VolumeSource) {
	s.add(v.NFS != nil, "nfs", func(at *field.Path) field.ErrorList { return NFS(v.NFS, at) })
	s.add(v.CSI != nil, "csi", func(at *field.Path) field.ErrorList {
		errs := DriverName(v.CSI.Driver, at.Child("driver"))
		if r := v.CSI.NodePublishSecretRef; r != nil {
			errs = append(errs, required1(r.Name, at.Child("nodePublishSecretRef", "name"))...)
		}
		return errs
	})
	s.add(v.ISCSI != nil, "iscsi", func(at *field.Path) field.ErrorList {
		errs := required1(v.ISCSI.TargetPortal, at.Child("targetPortal"))
		errs = append(errs, iqn(v.ISCSI.IQN, at.Child("iqn"))...)
		errs = append(errs, lun(v.ISCSI.Lun, at.Child("lun"))...)
		if (v.ISCSI.DiscoveryCHAPAuth || v.ISCSI.SessionCHAPAuth) && v.ISCSI.SecretRef == nil {
			errs = append(errs, field.Required(at.Child("secretRef"), ""))
		}
		return errs
	})
	s.add(v.Glusterfs != nil, "glusterfs", func(at *field.Path) field.ErrorList {
		return append(required1(v.Glusterfs.EndpointsName, at.Child("endpoints")), required1(v.Glusterfs.Path, at.Child("path"))...)
	})
	s.add(v.RBD != nil, "rbd", func(at *field.Path) field.ErrorList {
		var errs field.ErrorList
		if len(v.RBD.CephMonitors) == 0 {
			errs = append(errs, field.Required(at.Child("monitors"), ""))
		}
		return append(errs, required1(v.RBD.RBDImage, at.Child("image"))...)
	})
	s.add(v.CephFS != nil, "cephfs", func(at *field.Path) field.ErrorList {
		if len(v.CephFS.Monitors) == 0 {
			return field.ErrorList{field.Required(at.Child("monitors"), "")}
		}
		return nil
	})
	s.add(v.FC != nil, "fc", func(at *field.Path) field.ErrorList { return FC(v.FC, at) })
	s.add(v.Flocker != nil, "flocker", func(at *field.Path) field.ErrorList {
		f := v.Flocker
		switch {
		case f.DatasetName == "" && f.DatasetUUID == "":
			return field.ErrorList{field.Required(at, "one of datasetName and datasetUUID is required")}
		case f.DatasetName != "" && f.DatasetUUID != "":
			return field.ErrorList{field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")}
		}
		return noBackSteps(f.DatasetName, at.Child("datasetName"))
	})
	s.add(v.FlexVolume != nil, "flexVolume", func(at *field.Path) field.ErrorList { return required1(v.FlexVolume.Driver, at.Child("driver")) })
	s.add(v.Cinder != nil, "cinder", func(at *field.Path) field.ErrorList { return required1(v.Cinder.VolumeID, at.Child("volumeID")) })
	s.add(v.Quobyte != nil, "quobyte", func(at *field.Path) field.ErrorList {
		return append(required1(v.Quobyte.Registry, at.Child("registry")), required1(v.Quobyte.Volume, at.Child("volume"))...)
	})
	s.add(v.StorageOS != nil, "storageos", nil)
	s.cloudSources(v)
}

func (s *sources) cloudSources(v *corev1.VolumeSource) {
	s.add(v.GCEPersistentDisk != nil, "gcePersistentDisk", func(at *field.Path) field.ErrorList {
		return append(required1(v.GCEPersistentDisk.PDName, at.Child("pdName")), partition(v.GCEPersistentDisk.Partition, at.Child("partition"))...)
	})
	s.add(v.AWSElasticBlockStore != nil, "awsElasticBlockStore", func(at *field.Path) field.ErrorList {
		return append(required1(v.AWSElasticBlockStore.VolumeID, at.Child("volumeID")), partition(v.AWSElasticBlockStore.Partition, at.Child("partition"))...)
	})
	s.add(v.AzureFile != nil, "azureFile", func(at *field.Path) field.ErrorList {
		return append(required1(v.AzureFile.SecretName, at.Child("secretName")), required1(v.AzureFile.ShareName, at.Child("shareName"))...)
	})
	s.add(v.AzureDisk != nil, "azureDisk", func(at *field.Path) field.ErrorList {
		return append(required1(v.AzureDisk.DiskName, at.Child("diskName")), required1(v.AzureDisk.DataDiskURI, at.Child("diskURI"))...)
	})
	s.add(v.VsphereVolume != nil, "vsphereVolume", func(at *field.Path) field.ErrorList {
		return required1(v.VsphereVolume.VolumePath, at.Child("volumePath"))
	})
	s.add(v.PhotonPersistentDisk != nil, "photonPersistentDisk", func(at *field.Path) field.ErrorList {
		return required1(v.PhotonPersistentDisk.PdID, at.Child("pdID"))
	})
	s.add(v.PortworxVolume != nil, "portworxVolume", func(at *field.Path) field.ErrorList {
		return required1(v.PortworxVolume.VolumeID, at.Child("volumeID"))
	})
	s.add(v.ScaleIO != nil, "scaleIO", func(at *field.Path) field.ErrorList {
		errs := required1(v.ScaleIO.Gateway, at.Child("gateway"))
		errs = append(errs, required1(v.ScaleIO.System, at.Child("system"))...)
		return append(errs, required1(v.ScaleIO.VolumeName, at.Child("volumeName"))...)
	})
}

// NFS checks an NFS export.
func NFS(n *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required1(n.Server, at.Child("server")), required1(n.Path, at.Child("path"))...)
	if !path.IsAbs(n.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), n.Path, "must be an absolute path"))
	}
	return errs
}

// FC checks a fibre channel volume.
func FC(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	switch {
	case len(f.TargetWWNs) < 1 && len(f.WWIDs) < 1:
		return field.ErrorList{field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")}
	case len(f.TargetWWNs) != 0 && len(f.WWIDs) != 0:
		return field.ErrorList{field.Invalid(at.Child("targetWWNs"), f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")}
	case len(f.TargetWWNs) != 0 && f.Lun == nil:
		return field.ErrorList{field.Required(at.Child("lun"), "lun is required if targetWWNs is specified")}
	case len(f.TargetWWNs) != 0:
		return lun(*f.Lun, at.Child("lun"))
	}
	return nil
}

func lun(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, utilvalidation.InclusiveRangeError(0, 255))}
	}
	return nil
}

func partition(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, utilvalidation.InclusiveRangeError(0, 255))}
	}
	return nil
}

func iqn(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	for _, prefix := range []string{"iqn.", "eui.", "naa."} {
		if strings.HasPrefix(name, prefix) {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
}

// maxDriverName bounds the name of a CSI driver.
const maxDriverName = 63

// DriverName checks the name of a CSI driver.
func DriverName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(at, "", maxDriverName))
	}
	for _, msg := range utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
