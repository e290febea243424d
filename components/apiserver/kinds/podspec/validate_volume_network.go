package podspec

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// PositiveQuantity checks an amount that must not be zero.
func PositiveQuantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	errs := Quantity(name, q, at)
	if q.Sign() == 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be greater than zero"))
	}
	return errs
}

// GCEPersistentDisk checks a disk of GCE.
func GCEPersistentDisk(d *corev1.GCEPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return append(required1(d.PDName, at.Child("pdName")), partition(d.Partition, at.Child("partition"))...)
}

// AWSElasticBlockStore checks a disk of AWS.
func AWSElasticBlockStore(d *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) field.ErrorList {
	return append(required1(d.VolumeID, at.Child("volumeID")), partition(d.Partition, at.Child("partition"))...)
}

// partition checks the number of a partition; 0 is none. (The text says 1 because that is the first of them.)
func partition(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, utilvalidation.InclusiveRangeError(1, 255))}
	}
	return nil
}

// NFS checks an NFS export.
func NFS(n *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required1(n.Server, at.Child("server")), required1(n.Path, at.Child("path"))...)
	if !path.IsAbs(n.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), n.Path, "must be an absolute path"))
	}
	return errs
}

// maxISCSIName bounds <volume>:<portal>, by which an initiator of its own is known on the node.
const maxISCSIName = 64

func validateISCSI(v *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	errs := required1(v.TargetPortal, at.Child("targetPortal"))
	if v.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else {
		errs = append(errs, QualifiedISCSIName(v.IQN, at.Child("iqn"))...)
	}
	errs = append(errs, lun(v.Lun, at.Child("lun"))...)
	if (v.DiscoveryCHAPAuth || v.SessionCHAPAuth) && v.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if v.InitiatorName != nil {
		errs = append(errs, QualifiedISCSIName(*v.InitiatorName, at.Child("initiatorname"))...)
	}
	return errs
}

// validateISCSIName checks what an initiator of a volume's own is called.
func validateISCSIName(s *source) field.ErrorList {
	if s.ISCSI.InitiatorName == nil || len(s.Name+":"+s.ISCSI.TargetPortal) <= maxISCSIName {
		return nil
	}
	return field.ErrorList{field.Invalid(s.path.Child("name"), s.Name,
		"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "+
			"specified.")}
}

// iscsiNames are the three forms of a name in iSCSI (RFC 3720, 3.2.6.3), by their prefix, as upstream reads them.
var iscsiNames = []struct {
	prefix string
	form   *regexp.Regexp
}{
	{"iqn", regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)},
	{"eui", regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)},
	{"naa", regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)},
}

// QualifiedISCSIName checks the name of a target or an initiator.
func QualifiedISCSIName(name string, at *field.Path) field.ErrorList {
	for _, n := range iscsiNames {
		if !strings.HasPrefix(name, n.prefix) {
			continue
		}
		if !n.form.MatchString(name) {
			return field.ErrorList{field.Invalid(at, name, "must be valid format")}
		}
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
}

func lun(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, utilvalidation.InclusiveRangeError(0, 255))}
	}
	return nil
}

// Flocker checks a data set of Flocker.
func Flocker(f *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		errs = append(errs, field.Required(at, "one of datasetName and datasetUUID is required"))
	case f.DatasetName != "" && f.DatasetUUID != "":
		errs = append(errs, field.Invalid(at, "resource",
			"datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

// Quobyte checks a volume of Quobyte.
func Quobyte(q *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
	const registries, maxTenant = "must be a host:port pair or multiple pairs separated by commas", 64
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(at.Child("registry"), registries))
	case len(q.Tenant) > maxTenant:
		errs = append(errs, field.Required(at.Child("tenant"),
			"must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.Child("registry"), q.Registry, registries))
			}
		}
	}
	return append(errs, required1(q.Volume, at.Child("volume"))...)
}

// FC checks a fibre channel volume.
func FC(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	if len(f.TargetWWNs) == 0 {
		if len(f.WWIDs) == 0 {
			return field.ErrorList{field.Required(at.Child("targetWWNs"),
				"must specify either targetWWNs or wwids, but not both")}
		}
		return nil
	}
	var errs field.ErrorList
	if len(f.WWIDs) != 0 {
		errs = append(errs, field.Invalid(at.Child("targetWWNs"), f.TargetWWNs,
			"targetWWNs and wwids can not be specified simultaneously"))
	}
	if f.Lun == nil {
		return append(errs, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	}
	return append(errs, lun(*f.Lun, at.Child("lun"))...)
}

// FlexVolume checks a driver and its options, of which some names are reserved.
func FlexVolume(driver string, options map[string]string, at *field.Path) field.ErrorList {
	errs := required1(driver, at.Child("driver"))
	for _, key := range sortedKeys(options) {
		domain, _, _ := strings.Cut(key, "/")
		if reserved := "." + strings.ToLower(domain); strings.HasSuffix(reserved, ".kubernetes.io") ||
			strings.HasSuffix(reserved, ".k8s.io") {
			errs = append(errs, field.Invalid(at.Child("options").Key(key), key,
				"kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// AzureDisk checks a disk of Azure: the form of its address depends on its kind.
func AzureDisk(d *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	const (
		blob    = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
		managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	)
	errs := append(required1(d.DiskName, at.Child("diskName")), required1(d.DataDiskURI, at.Child("diskURI"))...)
	caching := []corev1.AzureDataDiskCachingMode{corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly,
		corev1.AzureDataDiskCachingReadWrite}
	if d.CachingMode != nil && !slices.Contains(caching, *d.CachingMode) {
		errs = append(errs, field.NotSupported(at.Child("cachingMode"), *d.CachingMode, caching))
	}
	kinds := []corev1.AzureDataDiskKind{corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk,
		corev1.AzureSharedBlobDisk}
	if d.Kind != nil && !slices.Contains(kinds, *d.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), *d.Kind, kinds))
	}
	if d.Kind != nil && *d.Kind == corev1.AzureManagedDisk {
		if !strings.HasPrefix(d.DataDiskURI, "/subscriptions/") {
			errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, []string{managed}))
		}
	} else if !strings.HasPrefix(d.DataDiskURI, "https://") {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, []string{blob}))
	}
	return errs
}

func validateStorageOS(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.VolumeName == "" {
		errs = append(errs, field.Required(at.Child("volumeName"), ""))
	} else {
		errs = append(errs, problems(s.VolumeName, at.Child("volumeName"), checks.Label)...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, problems(s.VolumeNamespace, at.Child("volumeNamespace"), checks.Label)...)
	}
	return append(errs, secretName(s.SecretRef, at)...)
}

// ScaleIO checks a volume of ScaleIO.
func ScaleIO(gateway, system, volume string, at *field.Path) field.ErrorList {
	errs := append(required1(gateway, at.Child("gateway")), required1(system, at.Child("system"))...)
	return append(errs, required1(volume, at.Child("volumeName"))...)
}

func validateCSI(c *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	errs := DriverName(c.Driver, at.Child("driver"))
	ref := c.NodePublishSecretRef
	switch {
	case ref == nil:
	case ref.Name == "":
		errs = append(errs, field.Required(at.Child("nodePublishSecretRef", "name"), ""))
	default:
		errs = append(errs, problems(ref.Name, at.Child("name"), checks.Subdomain)...)
	}
	return errs
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
