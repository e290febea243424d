package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestNetworkVolumes: the fields that each type needs, and their bounds.
func TestNetworkVolumes(t *testing.T) {
	secret := &corev1.LocalObjectReference{}
	const partitions, luns = "must be between 1 and 255, inclusive", "must be between 0 and 255, inclusive"
	const hosts = "must be a host:port pair or multiple pairs separated by commas"
	quobyte := func(registry, tenant, volume string) volumeSource {
		return volumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: registry, Tenant: tenant, Volume: volume}}
	}
	flocker := func(name, uuid string) volumeSource {
		return volumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: name, DatasetUUID: uuid}}
	}
	fc := func(lun *int32, wwns, wwids texts) volumeSource {
		return volumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: wwns, Lun: lun, WWIDs: wwids}}
	}
	flex := func(driver string, options map[string]string) volumeSource {
		return volumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: driver, Options: options}}
	}
	storageOS := func(name, namespace string, ref *corev1.LocalObjectReference) volumeSource {
		return volumeSource{StorageOS: &corev1.StorageOSVolumeSource{VolumeName: name, VolumeNamespace: namespace,
			SecretRef: ref}}
	}
	csi := func(driver string, ref *corev1.LocalObjectReference) volumeSource {
		return volumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver, NodePublishSecretRef: ref}}
	}
	var cases []specCase
	for _, c := range []struct {
		name   string
		source volumeSource
		want   texts
	}{
		{"GCE", volumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "a", Partition: 255}},
			nil},
		{"GCE of nothing", volumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{Partition: 256}},
			texts{"persistentDisk.pdName: Required value",
				"persistentDisk.partition: Invalid value: 256: " + partitions}},
		{"AWS", volumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "a"}}, nil},
		{"AWS of nothing", volumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{Partition: -1}},
			texts{"awsElasticBlockStore.volumeID: Required value",
				"awsElasticBlockStore.partition: Invalid value: -1: " + partitions}},
		{"NFS", volumeSource{NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/b"}}, nil},
		{"NFS of nothing", volumeSource{NFS: &corev1.NFSVolumeSource{}},
			texts{"nfs.server: Required value", "nfs.path: Required value",
				`nfs.path: Invalid value: "": must be an absolute path`}},
		{"glusterfs of nothing", volumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}},
			texts{"glusterfs.endpoints: Required value", "glusterfs.path: Required value"}},
		{"flocker", flocker("a", ""), nil},
		{"flocker of nothing", flocker("", ""),
			texts{"flocker: Required value: one of datasetName and datasetUUID is required"}},
		{"flocker of both", flocker("a/b", "c"), texts{
			`flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously`,
			`flocker.datasetName: Invalid value: "a/b": must not contain '/'`}},
		{"RBD of nothing", volumeSource{RBD: &corev1.RBDVolumeSource{}},
			texts{"rbd.monitors: Required value", "rbd.image: Required value"}},
		{"RBD", volumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: texts{"a"}, RBDImage: "b"}}, nil},
		{"cinder", volumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: secret}},
			texts{"cinder.volumeID: Required value", "cinder.secretRef.name: Required value"}},
		{"cephfs", volumeSource{CephFS: &corev1.CephFSVolumeSource{}}, texts{"cephfs.monitors: Required value"}},
		{"quobyte", quobyte("a:1,[::1]:2", strings.Repeat("t", 64), "v"), nil},
		{"quobyte of nothing", quobyte("", strings.Repeat("t", 65), ""),
			texts{"quobyte.registry: Required value: " + hosts,
				"quobyte.volume: Required value"}},
		{"quobyte without ports", quobyte("a,b:1,c", "", "v"),
			texts{`quobyte.registry: Invalid value: "a,b:1,c": ` + hosts,
				`quobyte.registry: Invalid value: "a,b:1,c": ` + hosts}},
		{"quobyte of a long tenant", quobyte("a", strings.Repeat("t", 65), "v"),
			texts{"quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"}},
		{"FC", fc(new(int32(0)), texts{"a"}, nil), nil},
		{"FC of ids", fc(nil, nil, texts{"a"}), nil},
		{"FC of nothing", fc(nil, nil, nil),
			texts{"fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"}},
		{"FC of both", fc(new(int32(256)), texts{"a"}, texts{"b"}), texts{
			`fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously`,
			"fc.lun: Invalid value: 256: " + luns}},
		{"FC without a lun", fc(nil, texts{"a"}, nil),
			texts{"fc.lun: Required value: lun is required if targetWWNs is specified"}},
		{"flex", flex("a/b", map[string]string{"akubernetes.io/a": "", "k8s.io.b": "", "c": ""}), nil},
		{"flex of nothing", flex("", nil), texts{"flexVolume.driver: Required value"}},
		{"flex of reserved options", flex("a", map[string]string{"kubernetes.io/a": "", "b.K8S.io": ""}), texts{
			`flexVolume.options[b.K8S.io]: Invalid value: "b.K8S.io": kubernetes.io and k8s.io namespaces are reserved`,
			`flexVolume.options[kubernetes.io/a]: Invalid value: "kubernetes.io/a": kubernetes.io and k8s.io namespaces are reserved`}},
		{"azure file", volumeSource{AzureFile: &corev1.AzureFileVolumeSource{}},
			texts{"azureFile.secretName: Required value", "azureFile.shareName: Required value"}},
		{"vSphere", volumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
			texts{"vsphereVolume.volumePath: Required value"}},
		{"photon", volumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}},
			texts{"photonPersistentDisk.pdID: Required value"}},
		{"portworx", volumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}},
			texts{"portworxVolume.volumeID: Required value"}},
		{"StorageOS", storageOS("a", "", nil), nil},
		{"StorageOS of nothing", storageOS("", "", secret),
			texts{"storageos.volumeName: Required value", "storageos.secretRef.name: Required value"}},
		{"StorageOS of bad names", storageOS("A", "B", nil), texts{
			`storageos.volumeName: Invalid value: "A": a lowercase RFC 1123 label must…`,
			`storageos.volumeNamespace: Invalid value: "B": a lowercase RFC 1123 label must…`}},
		{"ScaleIO", volumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}, texts{"scaleIO.gateway: Required value",
			"scaleIO.system: Required value", "scaleIO.volumeName: Required value"}},
		{"CSI", csi("A.b", &corev1.LocalObjectReference{Name: "a.b"}), nil},
		{"CSI of nothing", csi("", secret), texts{"csi.driver: Required value",
			"csi.nodePublishSecretRef.name: Required value"}},
		{"CSI of bad names", csi("a_b", &corev1.LocalObjectReference{Name: "A"}), texts{
			`csi.driver: Invalid value: "a_b": a lowercase RFC 1123 subdomain must…`,
			`csi.name: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}}, // upstream's path
		{"CSI of a long name", csi(strings.Repeat("a", 64), nil),
			texts{"csi.driver: Too long: may not be more than 63 bytes"}},
	} {
		cases = append(cases, specCase{c.name, withVolume(c.source), c.want})
	}
	checkSpecs(t, "spec.volumes[0].", cases)
}

func TestISCSI(t *testing.T) {
	type source = corev1.ISCSIVolumeSource
	with := func(change func(s *source)) func(*corev1.PodSpec) {
		s := &source{TargetPortal: "10.0.0.1", IQN: "iqn.2001-04.com.example:disk", Lun: 1}
		change(s)
		return withVolume(volumeSource{ISCSI: s})
	}
	const total = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if " +
		"iscsi.initiatorName is specified."
	initiator := new("iqn.2001-04.com.example:host")
	checkSpecs(t, "spec.volumes[0].iscsi.", []specCase{
		{"good", with(func(s *source) { s.InitiatorName = initiator }), nil},
		{"nothing", with(func(s *source) { s.TargetPortal, s.IQN, s.Lun = "", "", -1 }),
			texts{"targetPortal: Required value",
				"iqn: Required value", "lun: Invalid value: -1: must be between 0 and 255, inclusive"}},
		{"authentication",
			with(func(s *source) { s.DiscoveryCHAPAuth, s.SecretRef = true, &corev1.LocalObjectReference{} }), nil},
		{"discovery without a secret", with(func(s *source) { s.DiscoveryCHAPAuth = true }),
			texts{"secretRef: Required value"}},
		{"session without a secret", with(func(s *source) { s.SessionCHAPAuth = true }),
			texts{"secretRef: Required value"}},
		{"bad initiator", with(func(s *source) { s.InitiatorName = new("") }),
			texts{`initiatorname: Invalid value: "": must be valid format starting with iqn, eui, or naa`}},
		{"long portal", with(func(s *source) { s.TargetPortal = strings.Repeat("a", 63) }), nil},
		{"portal as long as may be, with an initiator",
			with(func(s *source) { s.TargetPortal, s.InitiatorName = strings.Repeat("a", 62), initiator }), nil},
		{"long portal with an initiator",
			with(func(s *source) { s.TargetPortal, s.InitiatorName = strings.Repeat("a", 63), initiator }),
			texts{`spec.volumes[0].name: Invalid value: "v": ` + total}},
		{"long portal of a second type", func(s *corev1.PodSpec) {
			with(func(s *source) { s.TargetPortal, s.InitiatorName = strings.Repeat("a", 63), initiator })(s)
			s.Volumes[0].EmptyDir = &corev1.EmptyDirVolumeSource{}
		}, texts{"spec.volumes[0].iscsi: Forbidden: may not specify more than 1 volume type",
			`spec.volumes[0].name: Invalid value: "v": ` + total}},
	})
	for name, want := range map[string]string{
		"iqn.2001-04.com.example:a": "", "eui.0123456789ABCDEF": "", "naa.0123456789abcdef0123456789ABCDEF": "",
		"iqn.2001-04.com.example": "must be valid format", "iqn.01-04.com.example:a": "must be valid format",
		"iqn.2001-04.com.example:a b": "must be valid format", "eui.0123456789ABCDE": "must be valid format",
		"naa.0123456789abcdef": "must be valid format", "x": "must be valid format starting with iqn, eui, or naa",
	} {
		errs := QualifiedISCSIName(name, field.NewPath("p"))
		if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || errs[0].Detail != want) {
			t.Errorf("%s: %v, want %q", name, errs, want)
		}
	}
}

func TestAzureDisk(t *testing.T) {
	type source = corev1.AzureDiskVolumeSource
	with := func(uri string, kind string, change func(s *source)) func(*corev1.PodSpec) {
		s := &source{DiskName: "d", DataDiskURI: uri}
		DefaultAzureDisk(s)
		if kind != "" {
			s.Kind = new(corev1.AzureDataDiskKind(kind))
		}
		change(s)
		return withVolume(volumeSource{AzureDisk: s})
	}
	nothing := func(*source) {}
	const blob = `"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"`
	const managed = `"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`
	checkSpecs(t, "spec.volumes[0].azureDisk.", []specCase{
		{"shared", with("https://a/b", "", nothing), nil},
		{"dedicated", with("https://a/b", "Dedicated", nothing), nil},
		{"managed", with("/subscriptions/a", "Managed", nothing), nil},
		{"managed of a blob", with("https://a/b", "Managed", nothing),
			texts{`diskURI: Unsupported value: "https://a/b": supported values: ` + managed}},
		{"blob of a subscription", with("/subscriptions/a", "", nothing),
			texts{`diskURI: Unsupported value: "/subscriptions/a": supported values: ` + blob}},
		{"unknown", with("https://a/b", "Local", nothing),
			texts{`kind: Unsupported value: "Local": supported values: "Dedicated", "Managed", "Shared"`}},
		{"no kind", with("https://a/b", "", func(s *source) { s.Kind, s.CachingMode = nil, nil }), nil},
		{"caching", with("https://a/b", "",
			func(s *source) { s.CachingMode = new(corev1.AzureDataDiskCachingMode("A")) }),
			texts{`cachingMode: Unsupported value: "A": supported values: "None", "ReadOnly", "ReadWrite"`}},
		{"nothing", with("", "", func(s *source) { s.DiskName = "" }),
			texts{"diskName: Required value", "diskURI: Required value",
				`diskURI: Unsupported value: "": supported values: ` + blob}},
	})
}
