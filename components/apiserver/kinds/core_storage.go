package kinds

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var volumeParts = parts[*corev1.PersistentVolume, corev1.PersistentVolumeSpec, corev1.PersistentVolumeStatus]{
	spec:   func(v *corev1.PersistentVolume) *corev1.PersistentVolumeSpec { return &v.Spec },
	status: func(v *corev1.PersistentVolume) *corev1.PersistentVolumeStatus { return &v.Status },
}

func persistentVolumes(deps Deps) *Kind {
	return define(row[*corev1.PersistentVolume]{
		Name: "PersistentVolume", Resource: "persistentvolumes", ShortNames: []string{"pv"}, Cluster: true,
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultVolume,
		Strategy: strategy[*corev1.PersistentVolume]{
			PrepareCreate: func(_ context.Context, v *corev1.PersistentVolume) {
				now := metav1.NewTime(deps.now())
				v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
			},
			PrepareUpdate: volumeParts.keepStatus,
			Validate:      core.ValidateVolume,
			ValidateAmong: func(new, old *corev1.PersistentVolume, meta MetaErrors) field.ErrorList {
				return slices.Concat(meta.Object, core.ValidateVolumeAfter(new, old), meta.Object, core.ValidateVolumeUpdate(new, old))
			},
			Warnings:            core.VolumeWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.PersistentVolume]{
			PrepareUpdate: func(ctx context.Context, new, old *corev1.PersistentVolume) {
				volumeParts.statusUpdate(ctx, new, old)
				core.PrepareVolumeStatus(new, old, deps.now())
			},
			Reset: []string{"spec"},
		},
		Columns: core.VolumeColumns(),
		Row:     core.VolumeRow,
	})
}

var claimParts = parts[*corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimSpec, corev1.PersistentVolumeClaimStatus]{
	spec:   func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimSpec { return &c.Spec },
	status: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimStatus { return &c.Status },
}

func persistentVolumeClaims() *Kind {
	return define(row[*corev1.PersistentVolumeClaim]{
		Name: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		Hub:     corev1.SchemeGroupVersion,
		Default: core.DefaultClaim,
		OnRead:  func(c *corev1.PersistentVolumeClaim) { core.NormalizeSource(&c.Spec, &c.Spec) },
		Strategy: strategy[*corev1.PersistentVolumeClaim]{
			Meta: MetaAll,
			PrepareCreate: func(_ context.Context, c *corev1.PersistentVolumeClaim) {
				c.Status = corev1.PersistentVolumeClaimStatus{} // pending is what readers make of it
				core.NormalizeSource(&c.Spec, nil)
			},
			PrepareUpdate: func(ctx context.Context, new, old *corev1.PersistentVolumeClaim) {
				claimParts.keepStatus(ctx, new, old)
				core.NormalizeSource(&new.Spec, &old.Spec)
			},
			Validate:            core.ValidateClaim,
			ValidateUpdate:      core.ValidateClaimUpdate,
			Warnings:            core.ClaimWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*corev1.PersistentVolumeClaim]{
			PrepareUpdate:  claimParts.statusUpdate,
			ValidateUpdate: core.ValidateClaimStatus,
			Reset:          []string{"spec"},
		},
		Columns: core.ClaimColumns(),
		Row:     core.ClaimRow,
	})
}
