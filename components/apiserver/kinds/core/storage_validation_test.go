package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validVolume() *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{Capacity: amounts("storage", "1Gi"),
		AccessModes:            []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a"}}}}
	v.Name = "v"
	DefaultVolume(v)
	return v
}

func TestVolumes(t *testing.T) {
	type object = *corev1.PersistentVolume
	spec := func(change func(s *corev1.PersistentVolumeSpec)) func(object) {
		return func(v object) { change(&v.Spec) }
	}
	type s = *corev1.PersistentVolumeSpec
	ofCSI := func(s s) {
		s.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d",
			VolumeHandle: "h"}}
	}
	checkRules(t, "spec.", validVolume, ValidateVolume, []ruleCase[object]{
		{"minimal", func(object) {}, nil},
		{"no modes", spec(func(s s) { s.AccessModes = nil }), texts{"accessModes: Required value"}},
		{"no capacity", spec(func(s s) { s.Capacity = nil }), texts{"capacity: Required value",
			`capacity: Unsupported value: null: supported values: "storage"`}},
		{"other capacity", spec(func(s s) { s.Capacity = amounts("storage", "1", "cpu", "1") }),
			texts{`capacity: Unsupported value: {"cpu":"1","storage":"1"}: supported values: "storage"`}},
		{"negative capacity", spec(func(s s) { s.Capacity = amounts("storage", "-1") }),
			texts{`capacity[storage]: Invalid value: -1: must be a valid resource quantity`,
				`capacity[storage]: Invalid value: "-1": must be greater than zero`}},
		{"policy", spec(func(s s) { s.PersistentVolumeReclaimPolicy = "Keep" }),
			texts{`persistentVolumeReclaimPolicy: Unsupported value: "Keep"…`}},
		{"recycled root", spec(func(s s) { s.PersistentVolumeReclaimPolicy, s.HostPath.Path = "Recycle", "//" }),
			texts{"persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"}},
		{"class", spec(func(s s) { s.StorageClassName = "A" }),
			texts{`storageClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"mode", spec(func(s s) { s.VolumeMode = new(corev1.PersistentVolumeMode("Tape")) }),
			texts{`volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`}},
		{"attributes", spec(func(s s) {
			ofCSI(s)
			s.VolumeAttributesClassName = new("a")
		}), nil},
		{"no attributes", spec(func(s s) {
			ofCSI(s)
			s.VolumeAttributesClassName = new("")
		}), texts{"volumeAttributesClassName: Required value: an empty string is disallowed"}},
		{"attributes of no driver", spec(func(s s) { s.VolumeAttributesClassName = new("a") }),
			texts{"csi: Required value: has to be specified when using volumeAttributesClassName"}},
		{"mount options", func(v object) { v.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"} },
			texts{"metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for " +
				"this volume type"}},
		{"mount options of NFS", func(v object) {
			v.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "a",
				Path: "/"}}
		}, nil},
		{"no source", spec(func(s s) { s.PersistentVolumeSource = corev1.PersistentVolumeSource{} }),
			texts{"spec: Required value: must specify a volume type"}},
		{"two sources", spec(func(s s) { s.NFS = &corev1.NFSVolumeSource{} }),
			texts{"nfs: Forbidden: may not specify more than 1 volume type"}},
		{"a disk too many", spec(func(s s) {
			s.GCEPersistentDisk, s.CephFS = &corev1.GCEPersistentDiskVolumeSource{},
				&corev1.CephFSPersistentVolumeSource{}
		}),
			texts{"gcePersistentDisk: Forbidden: may not specify more than 1 volume type",
				"cephFS: Forbidden: may not specify more than 1 volume type"}},
	})
}

// TestVolumeSources: what each place where a volume may come from needs.
func TestVolumeSources(t *testing.T) {
	type source = corev1.PersistentVolumeSource
	type object = *corev1.PersistentVolume
	named, half, none := &corev1.SecretReference{Name: "a", Namespace: "b"}, &corev1.SecretReference{Name: "a"},
		&corev1.SecretReference{}
	const iqn = "iqn.2001-04.com.example:disk"
	csi := func(change func(c *corev1.CSIPersistentVolumeSource)) source {
		c := &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
		change(c)
		return source{CSI: c}
	}
	var cases []ruleCase[object]
	for _, c := range []struct {
		name   string
		source source
		want   texts
	}{
		{"glusterfs",
			source{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsName: "a", Path: "b",
				EndpointsNamespace: new("c")}}, nil},
		{"glusterfs of nothing",
			source{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsNamespace: new("")}}, texts{
				"glusterfs.endpoints: Required value", "glusterfs.path: Required value",
				`glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name`}},
		{"RBD", source{RBD: &corev1.RBDPersistentVolumeSource{}}, texts{"rbd.monitors: Required value",
			"rbd.image: Required value"}},
		{"cephfs", source{CephFS: &corev1.CephFSPersistentVolumeSource{}}, texts{"cephfs.monitors: Required value"}},
		{"cinder", source{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "a", SecretRef: named}}, nil},
		{"cinder of nothing", source{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: half}},
			texts{"cinder.volumeID: Required value", "cinder.secretRef.namespace: Required value"}},
		{"iSCSI",
			source{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "a", IQN: iqn, DiscoveryCHAPAuth: true,
				SecretRef: half}}, nil},
		{"iSCSI of nothing",
			source{ISCSI: &corev1.ISCSIPersistentVolumeSource{SessionCHAPAuth: true, Lun: 256,
				InitiatorName: new("x")}}, texts{
				"iscsi.targetPortal: Required value", "iscsi.iqn: Required value",
				"iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
				"iscsi.secretRef: Required value", `iscsi.initiatorname: Invalid value: "x": must be valid format`}},
		{"iSCSI of a long portal",
			source{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: strings.Repeat("a", 63), IQN: "x",
				InitiatorName: new(iqn)}},
			texts{"iscsi.targetportal: Invalid value: \"" + strings.Repeat("a",
				63) + "\": Total length of <volume name>:<iscsi.targetPortal> must be under 64…",
				`iscsi.iqn: Invalid value: "x": must be valid format`}},
		{"azure file", source{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: new("")}}, texts{
			"azureFile.secretName: Required value", "azureFile.shareName: Required value",
			"azureFile.secretNamespace: Required value"}},
		{"vSphere", source{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
			texts{"vsphereVolume.volumePath: Required value"}},
		{"photon", source{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}},
			texts{"photonPersistentDisk.pdID: Required value"}},
		{"portworx", source{PortworxVolume: &corev1.PortworxVolumeSource{}},
			texts{"portworxVolume.volumeID: Required value"}},
		{"local", source{Local: &corev1.LocalVolumeSource{Path: "/a/.."}},
			texts{`local.path: Invalid value: "/a/..": must not contain '..'`,
				"nodeAffinity: Required value: Local volume requires node affinity"}},
		{"StorageOS",
			source{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeName: "A", VolumeNamespace: "b.c",
				SecretRef: &corev1.ObjectReference{}}},
			texts{`storageos.volumeName: Invalid value: "A": a lowercase RFC 1123 label must…`,
				`storageos.volumeNamespace: Invalid value: "b.c": must not contain dots`,
				"storageos.secretRef.name: Required value", "storageos.secretRef.namespace: Required value"}},
		{"CSI", csi(func(c *corev1.CSIPersistentVolumeSource) {
			c.ControllerPublishSecretRef, c.ControllerExpandSecretRef, c.NodePublishSecretRef,
				c.NodeExpandSecretRef = named, named, named, named
		}), nil},
		{"CSI of nothing", csi(func(c *corev1.CSIPersistentVolumeSource) { c.Driver, c.VolumeHandle = "", "" }),
			texts{"csi.driver: Required value", "csi.volumeHandle: Required value"}},
		{"CSI of secrets without names", csi(func(c *corev1.CSIPersistentVolumeSource) {
			c.ControllerPublishSecretRef, c.ControllerExpandSecretRef, c.NodePublishSecretRef = none, half,
				&corev1.SecretReference{Name: "A", Namespace: "B"}
		}), texts{"csi.controllerPublishSecretRef.name: Required value",
			"csi.controllerPublishSecretRef.namespace: Required value",
			"csi.controllerExpandSecretRef.namespace: Required value",
			`csi.nodePublishSecretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain…`,
			`csi.nodePublishSecretRef.namespace: Invalid value: "B": a lowercase RFC 1123 label…`}},
	} {
		cases = append(cases, ruleCase[object]{c.name, func(v object) { v.Spec.PersistentVolumeSource = c.source },
			c.want})
	}
	checkRules(t, "spec.", validVolume, ValidateVolume, cases)
}

// TestInlineVolumes: an attachment describes a volume of a driver, without what only a volume of its own has.
func TestInlineVolumes(t *testing.T) {
	const never = ": Forbidden: may not be specified in the context of inline volumes"
	s := &corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d",
			VolumeHandle: "h"}}}
	sameTexts(t, errorsBelow("", InlineVolume(s, field.NewPath("s"))), nil)
	s.ClaimRef, s.Capacity, s.NodeAffinity, s.StorageClassName = &corev1.ObjectReference{}, amounts("storage", "1"),
		&corev1.VolumeNodeAffinity{}, "a"
	s.AccessModes, s.PersistentVolumeReclaimPolicy, s.VolumeMode = nil, "Delete", new(corev1.PersistentVolumeBlock)
	s.PersistentVolumeSource = corev1.PersistentVolumeSource{}
	sameTexts(t, errorsBelow("s.", InlineVolume(s, field.NewPath("s"))), texts{"claimRef" + never, "capacity" + never,
		"csi: Required value: has to be specified in the context of inline volumes", "accessModes: Required value",
		"persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
		"nodeAffinity" + never,
		"s: Required value: must specify a volume type", "storageClassName" + never,
		"volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes"})
}

func TestVolumeUpdates(t *testing.T) {
	type object = *corev1.PersistentVolume
	on := func(key string) func(object) {
		return func(v object) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: "In", Values: texts{"a"}}}}}},
			}
		}
	}
	csi := func(v object) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d",
			VolumeHandle: "h"}}
	}
	attributed := func(v object) {
		csi(v)
		v.Spec.VolumeAttributesClassName = new("a")
	}
	secret := &corev1.SecretReference{Name: "a", Namespace: "b"}
	checkChanges(t, "", validVolume, ValidateVolumeUpdate, []changeCase[object]{
		{"claim and capacity", nil, func(v object) {
			v.Spec.ClaimRef, v.Spec.Capacity = &corev1.ObjectReference{Name: "c"}, amounts("storage", "2Gi")
		}, nil},
		{"source", nil, func(v object) { v.Spec.HostPath.Path = "/b" },
			texts{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n…"}},
		{"mode", nil, func(v object) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
			texts{`volumeMode: Invalid value: "Block": field is immutable`}},
		{"secret to expand with", csi, func(v object) { v.Spec.CSI.ControllerExpandSecretRef = secret }, nil},
		{"secret to publish with", csi, func(v object) { v.Spec.CSI.NodePublishSecretRef = secret },
			texts{"spec.persistentvolumesource: Forbidden: …"}},
		{"nodes", nil, on("a"), nil},
		{"other nodes", on("a"), on("b"), texts{"nodeAffinity: Invalid value: {…"}},
		{"no nodes", on("a"), func(v object) { v.Spec.NodeAffinity = nil },
			texts{"nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"}},
		{"zone by its new name", on("failure-domain.beta.kubernetes.io/zone"), on("topology.kubernetes.io/zone"), nil},
		{"zone by its old name", on("topology.kubernetes.io/zone"), on("failure-domain.beta.kubernetes.io/zone"),
			texts{"nodeAffinity: Invalid value: {…"}},
		{"region for zone", on("failure-domain.beta.kubernetes.io/zone"), on("topology.kubernetes.io/region"),
			texts{"nodeAffinity: Invalid value: {…"}},
		{"other attributes", attributed, func(v object) { v.Spec.VolumeAttributesClassName = new("b") }, nil},
		{"no attributes", attributed, func(v object) { v.Spec.VolumeAttributesClassName = nil },
			texts{"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"}},
	})
}

func validClaim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "2Gi")}},
	}
	DefaultClaim(c)
	return c
}

// TestClaimUpdates: a claim is bound; a bound one grows and changes its class of attributes.
func TestClaimUpdates(t *testing.T) {
	type object = *corev1.PersistentVolumeClaim
	bound := func(c object) {
		c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = "v", "Bound", amounts("storage", "1Gi")
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = new("a"), new("a")
	}
	size := func(text string) func(object) {
		return func(c object) { c.Spec.Resources.Requests = amounts("storage", text) }
	}
	class := func(name *string) func(object) { return func(c object) { c.Spec.StorageClassName = name } }
	beta := func(name string) func(object) {
		return func(c object) { c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: name} }
	}
	const immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and " +
		"volumeAttributesClassName for bound claims\n…"
	const attributes = "spec.volumeAttributesClassName: Forbidden: update to %s is forbidden when " +
		"status.currentVolumeAttributesClassName is not nil"
	checkChanges(t, "", validClaim, ValidateClaimUpdate, []changeCase[object]{
		{"volume", nil, func(c object) { c.Spec.VolumeName = "v" }, nil},
		{"another volume", bound, func(c object) { c.Spec.VolumeName = "w" }, texts{immutable}},
		{"size before it is bound", nil, size("3Gi"), texts{immutable}},
		{"size", bound, size("3Gi"), nil},
		{"less, but more than there is", bound, size("1500Mi"), nil},
		{"as little as there is", bound, size("1Gi"),
			texts{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
		{"modes", bound, func(c object) { c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteMany"} },
			texts{immutable}},
		{"mode", nil, func(c object) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
			texts{immutable, `volumeMode: Invalid value: "Block": field is immutable`}},
		{"first class", nil, class(new("a")), nil},
		{"another class", class(new("a")), class(new("b")), texts{immutable}},
		{"class of the annotation", beta("a"), class(new("a")), nil},
		{"class other than the annotation", beta("a"), class(new("b")), texts{immutable}},
		{"another annotation", beta("a"), beta("b"),
			texts{`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "b": field is immutable`}},
		{"other attributes", bound, func(c object) { c.Spec.VolumeAttributesClassName = new("b") }, nil},
		{"no attributes", bound, func(c object) { c.Spec.VolumeAttributesClassName = nil },
			texts{strings.Replace(attributes, "%s", "nil", 1)}},
		{"empty attributes", bound, func(c object) { c.Spec.VolumeAttributesClassName = new("") },
			texts{strings.Replace(attributes, "%s", "empty string", 1)}},
	})
}

func TestClaimStatuses(t *testing.T) {
	type object = *corev1.PersistentVolumeClaim
	states := func(name, state string) func(object) {
		return func(c object) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
				corev1.ResourceName(name): corev1.ClaimResourceStatus(state),
			}
		}
	}
	checkChanges(t, "status.", validClaim, ValidateClaimStatus, []changeCase[object]{
		{"capacity", nil, func(c object) { c.Status.Capacity = amounts("storage", "1", "x", "0") }, nil},
		{"negative capacity", nil, func(c object) { c.Status.Capacity = amounts("storage", "-1") },
			texts{"capacity[storage]: Invalid value: -1: must be a valid resource quantity"}},
		{"resize", nil, states("storage", "NodeResizePending"), nil},
		{"another state", nil, states("example.com/x", "Done"),
			texts{`allocatedResourceStatuses: Unsupported value: "example.com/x": supported values: ` +
				`"ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"`}},
		{"another resource", nil, states("cpu", "NodeResizePending"),
			texts{`allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"`}},
		{"allocated", nil, func(c object) { c.Status.AllocatedResources = amounts("storage", "-1", "cpu", "1") }, texts{
			`allocatedResources: Unsupported value: "cpu": supported values: "storage"`,
			"allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity"}},
	})
}

func TestRowsOfStorage(t *testing.T) {
	v := validVolume()
	v.Spec.ClaimRef, v.Status.Reason = &corev1.ObjectReference{Namespace: "n", Name: "c"}, "because"
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany",
		"ReadWriteOnce", "ReadWriteOnce"}
	sameRow(t, VolumeColumns(), VolumeRow(v), "v", "1Gi", "RWO,ROX,RWX,RWOP", "Retain", "Pending", "n/c", "", "<unset>",
		"because", "<unknown>", "Filesystem")
	v.DeletionTimestamp, v.Annotations = &metav1.Time{}, map[string]string{corev1.BetaStorageClassAnnotation: "old"}
	v.Spec.StorageClassName, v.Spec.VolumeMode, v.Spec.ClaimRef = "new", nil, nil
	sameRow(t, VolumeColumns(), VolumeRow(v), "v", "1Gi", "RWO,ROX,RWX,RWOP", "Retain", "Terminating", "", "old",
		"<unset>", "because", "<unknown>", "<unset>")
	c := validClaim()
	c.Name, c.Status.Capacity, c.Spec.VolumeAttributesClassName = "c", amounts("storage", "1Gi"), new("fast")
	sameRow(t, ClaimColumns(), ClaimRow(c), "c", "Pending", "", "", "", "", "fast", "<unknown>", "Filesystem")
	c.Spec.VolumeName, c.Spec.StorageClassName, c.Status.AccessModes = "v", new("k"), c.Spec.AccessModes
	sameRow(t, ClaimColumns(), ClaimRow(c), "c", "Pending", "v", "1Gi", "RWO", "k", "fast", "<unknown>", "Filesystem")
}

func TestStorageWarnings(t *testing.T) {
	v := validVolume()
	v.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "", corev1.MountOptionAnnotation: ""}
	v.Spec.PersistentVolumeReclaimPolicy = "Recycle"
	v.Spec.CephFS, v.Spec.RBD = &corev1.CephFSPersistentVolumeSource{}, &corev1.RBDPersistentVolumeSource{}
	sameTexts(t, VolumeWarnings(v, nil), texts{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead`,
		"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach " +
			"is to use dynamic provisioning.",
		"spec.cephfs: deprecated in v1.28, non-functional in v1.31+",
		"spec.rbd: deprecated in v1.28, non-functional in v1.31+",
	})
	sameTexts(t, VolumeWarnings(validVolume(), nil), nil)
	c := validClaim()
	c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: ""}
	sameTexts(t, ClaimWarnings(c, nil), texts{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
	})
}
