package core

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var volumeParts = api.Parts[*corev1.PersistentVolume, corev1.PersistentVolumeSpec, corev1.PersistentVolumeStatus]{
	Spec:   func(v *corev1.PersistentVolume) *corev1.PersistentVolumeSpec { return &v.Spec },
	Status: func(v *corev1.PersistentVolume) *corev1.PersistentVolumeStatus { return &v.Status },
}

func persistentVolumes(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*corev1.PersistentVolume]{
		Name: "PersistentVolume", Resource: "persistentvolumes", ShortNames: []string{"pv"}, Cluster: true,
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultVolume,
		Strategy: api.Strategy[*corev1.PersistentVolume]{
			PrepareCreate: func(_ context.Context, v *corev1.PersistentVolume) {
				now := metav1.NewTime(deps.Now())
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
			},
			PrepareUpdate: volumeParts.KeepStatus,
			Validate:      api.OfObject(ValidateVolume),
			ValidateAmong: func(_ context.Context, new, old *corev1.PersistentVolume,
				meta api.MetaErrors) field.ErrorList {
				return slices.Concat(meta.Object, ValidateVolumeAfter(new, old), meta.Object,
					ValidateVolumeUpdate(new, old))
			},
			Warnings:            api.OfChange(VolumeWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.PersistentVolume]{
			PrepareUpdate: func(ctx context.Context, new, old *corev1.PersistentVolume) {
				volumeParts.StatusUpdate(ctx, new, old)
				PrepareVolumeStatus(new, old, deps.Now())
			},
			Reset: []string{"spec"},
		},
		Columns: VolumeColumns(),
		Row:     VolumeRow,
	})
}

var claimParts = api.Parts[*corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimSpec,
	corev1.PersistentVolumeClaimStatus]{
	Spec:   func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimSpec { return &c.Spec },
	Status: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimStatus { return &c.Status },
}

func persistentVolumeClaims() *api.Kind {
	return api.Define(api.Row[*corev1.PersistentVolumeClaim]{
		Name: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		Hub:     corev1.SchemeGroupVersion,
		Default: DefaultClaim,
		OnRead:  func(c *corev1.PersistentVolumeClaim) { NormalizeSource(&c.Spec, &c.Spec) },
		Strategy: api.Strategy[*corev1.PersistentVolumeClaim]{
			Meta: api.MetaAll,
			PrepareCreate: func(_ context.Context, c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{} // pending is what readers make of it
				NormalizeSource(&c.Spec, nil)
			},
			PrepareUpdate: func(ctx context.Context, new, old *corev1.PersistentVolumeClaim) {
				claimParts.KeepStatus(ctx, new, old)
				NormalizeSource(&new.Spec, &old.Spec)
			},
			Validate:            api.OfObject(ValidateClaim),
			ValidateUpdate:      api.OfChange(ValidateClaimUpdate),
			Warnings:            api.OfChange(ClaimWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*corev1.PersistentVolumeClaim]{
			PrepareUpdate:  claimParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateClaimStatus),
			Reset:          []string{"spec"},
		},
		Columns: ClaimColumns(),
		Row:     ClaimRow,
	})
}

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

// PrepareVolumeStatus sets the time of a phase change, where the writer doesn't.
func PrepareVolumeStatus(new, old *corev1.PersistentVolume, now time.Time) {
	is, was := &new.Status, &old.Status
	switch {
	case is.Phase == was.Phase && is.LastPhaseTransitionTime == nil:
		is.LastPhaseTransitionTime = was.LastPhaseTransitionTime
	case is.Phase != was.Phase &&
		(is.LastPhaseTransitionTime == nil || is.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
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

// NormalizeSource makes the two forms of a claim's data source agree, where they can. What can't be a source is
// dropped, unless the claim had one before (has, which may be nil): one of another namespace, and, in the older form,
// whatever is neither a claim nor a snapshot.
func NormalizeSource(s, has *corev1.PersistentVolumeClaimSpec) {
	if s.DataSourceRef != nil && elsewhere(s.DataSourceRef) && (has == nil || has.DataSourceRef == nil) {
		s.DataSourceRef = nil
	}
	if s.DataSourceRef == nil && s.DataSource != nil && !isSource(s.DataSource) &&
		(has == nil || has.DataSource == nil) {
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
		v.Name, quantity(v.Spec.Capacity), modes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy),
		phase, claim,
		class(v.Annotations, &v.Spec.StorageClassName), show.Or(v.Spec.VolumeAttributesClassName, show.Unset),
		v.Status.Reason,
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
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(list, m.mode) {
			out = append(out, m.short)
		}
	}
	return strings.Join(out, ",")
}
