package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// DefaultVolume sets the defaults of a persistent volume.
func DefaultVolume(v *corev1.PersistentVolume) {
	setString(&v.Status.Phase, corev1.VolumePending)
	podspec.RoundUp(v.Spec.Capacity)
	s := &v.Spec
	setString(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	setDefault(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultVolumeSource(&s.PersistentVolumeSource)
}

// DefaultVolumeSource sets the defaults of where a volume comes from, of each place if there are several.
func DefaultVolumeSource(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		setDefault(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		setString(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setString(&s.RBD.RBDPool, "rbd")
		setString(&s.RBD.RadosUser, "admin")
		setString(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.AzureDisk != nil {
		podspec.DefaultAzureDisk(s.AzureDisk)
	}
	if s.ScaleIO != nil {
		setString(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&s.ScaleIO.FSType, "xfs")
	}
}

// PrepareVolumeStatus notes when the phase changed, where whoever changes it doesn't say.
func PrepareVolumeStatus(new, old *corev1.PersistentVolume, now time.Time) {
	is, was := &new.Status, &old.Status
	switch {
	case is.Phase == was.Phase && is.LastPhaseTransitionTime == nil:
		is.LastPhaseTransitionTime = was.LastPhaseTransitionTime
	case is.Phase != was.Phase && (is.LastPhaseTransitionTime == nil || is.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
		is.LastPhaseTransitionTime = &metav1.Time{Time: now}
	}
}

// DefaultClaim sets the defaults of a persistent volume claim.
func DefaultClaim(c *corev1.PersistentVolumeClaim) {
	setString(&c.Status.Phase, corev1.ClaimPending)
	podspec.RoundUp(c.Status.Capacity)
	podspec.RoundUp(c.Status.AllocatedResources)
	podspec.DefaultClaimSpec(&c.Spec)
}

// NormalizeSource makes the two forms of a claim's data source agree, where they can. What can't be a source is dropped, unless the
// claim had one before (has, which may be nil): one of another namespace, and, in the older form, whatever is neither a claim nor a
// snapshot.
func NormalizeSource(s, has *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && elsewhere(s.DataSourceRef) && (has == nil || has.DataSourceRef == nil) {
		s.DataSourceRef = nil
	}
	if s.DataSourceRef == nil && s.DataSource != nil && !isSource(s.DataSource) && (has == nil || has.DataSource == nil) {
		s.DataSource = nil
	}
	switch {
	case s.DataSource != nil && s.DataSourceRef == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{
			APIGroup: s.DataSource.APIGroup, Kind: s.DataSource.Kind, Name: s.DataSource.Name,
		}
	case s.DataSource == nil && s.DataSourceRef != nil && !elsewhere(s.DataSourceRef):
		s.DataSource = &corev1.TypedLocalObjectReference{
			APIGroup: s.DataSourceRef.APIGroup, Kind: s.DataSourceRef.Kind, Name: s.DataSourceRef.Name,
		}
	}
}

func elsewhere(r *corev1.TypedObjectReference) bool { return r.Namespace != nil && *r.Namespace != "" }

func isSource(d *corev1.TypedLocalObjectReference) bool {
	switch show.Or(d.APIGroup, "") {
	case "":
		return d.Kind == "PersistentVolumeClaim"
	case "snapshot.storage.k8s.io":
		return d.Kind == "VolumeSnapshot"
	}
	return false
}

// VolumeColumns are the columns of persistent volumes.
func VolumeColumns() show.Columns {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return show.Name().
		String("Capacity", spec["capacity"]).
		String("Access Modes", spec["accessModes"]).
		String("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]).
		String("Status", status["phase"]).
		String("Claim", spec["claimRef"]).
		String("StorageClass", "StorageClass of the pv").
		String("VolumeAttributesClass", "VolumeAttributesClass of the pv").
		String("Reason", status["reason"]).
		Age().
		Wide("VolumeMode", spec["volumeMode"])
}

// VolumeRow are the cells of a persistent volume.
func VolumeRow(v *corev1.PersistentVolume) []any {
	claim, phase := "", string(v.Status.Phase)
	if r := v.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	return []any{
		v.Name, quantity(v.Spec.Capacity), modes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		class(v.Annotations, &v.Spec.StorageClassName), show.Or(v.Spec.VolumeAttributesClassName, show.Unset), v.Status.Reason,
		show.Age(v.CreationTimestamp), string(show.Or(v.Spec.VolumeMode, show.Unset)),
	}
}

// ClaimColumns are the columns of persistent volume claims.
func ClaimColumns() show.Columns {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return show.Name().
		String("Status", status["phase"]).
		String("Volume", spec["volumeName"]).
		String("Capacity", status["capacity"]).
		String("Access Modes", status["accessModes"]).
		String("StorageClass", "StorageClass of the pvc").
		String("VolumeAttributesClass", "VolumeAttributesClass of the pvc").
		Age().
		Wide("VolumeMode", spec["volumeMode"])
}

// ClaimRow are the cells of a persistent volume claim.
func ClaimRow(c *corev1.PersistentVolumeClaim) []any {
	phase, capacity, access := string(c.Status.Phase), "", ""
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	if c.Spec.VolumeName != "" {
		capacity, access = quantity(c.Status.Capacity), modes(c.Status.AccessModes)
	}
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, access, class(c.Annotations, c.Spec.StorageClassName),
		show.Or(c.Spec.VolumeAttributesClassName, show.Unset), show.Age(c.CreationTimestamp),
		string(show.Or(c.Spec.VolumeMode, show.Unset)),
	}
}

func quantity(list corev1.ResourceList) string {
	q := list[corev1.ResourceStorage]
	return q.String()
}

func class(annotations map[string]string, name *string) string {
	if c, ok := annotations[corev1.BetaStorageClassAnnotation]; ok {
		return c
	}
	return show.Or(name, "")
}

func modes(list []corev1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(list, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}
