package kinds

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/storage"
)

func storageClasses() *Kind {
	return define(row[*storagev1.StorageClass]{
		Name: "StorageClass", Resource: "storageclasses", ShortNames: []string{"sc"}, Cluster: true,
		Hub:     storagev1.SchemeGroupVersion,
		Default: storage.DefaultClass,
		Former:  []Version{formerTwin[*storagev1beta1.StorageClass](storagev1beta1.SchemeGroupVersion, storage.DefaultClass)},
		Strategy: strategy[*storagev1.StorageClass]{
			Validate:            storage.ValidateClass,
			ValidateAmong:       wholeFirst(whatever(storage.ValidateClass), storage.ValidateClassChange),
			Warnings:            storage.ClassWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: storage.ClassColumns(),
		Row:     storage.ClassRow,
	})
}

var attachmentParts = parts[*storagev1.VolumeAttachment, storagev1.VolumeAttachmentSpec, storagev1.VolumeAttachmentStatus]{
	spec:   func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentSpec { return &a.Spec },
	status: func(a *storagev1.VolumeAttachment) *storagev1.VolumeAttachmentStatus { return &a.Status },
}

func volumeAttachments() *Kind {
	return define(row[*storagev1.VolumeAttachment]{
		Name: "VolumeAttachment", Resource: "volumeattachments", Cluster: true,
		Default: storage.DefaultAttachment,
		Hub:     storagev1.SchemeGroupVersion,
		Former: []Version{
			formerTwin[*storagev1beta1.VolumeAttachment](storagev1beta1.SchemeGroupVersion, storage.DefaultAttachment),
			formerTwin[*storagev1alpha1.VolumeAttachment, *storagev1.VolumeAttachment](storagev1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: strategy[*storagev1.VolumeAttachment]{
			Meta:           MetaObjects,
			PrepareCreate:  attachmentParts.plainCreate,
			PrepareUpdate:  attachmentParts.keepStatus,
			Validate:       storage.ValidateAttachment,
			ValidateUpdate: storage.ValidateAttachmentUpdate,
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
			Reset:          []string{"status"},
		},
		Status: &strategy[*storagev1.VolumeAttachment]{
			Meta: MetaObjects, AnyFinalizer: true,
			PrepareUpdate:  attachmentParts.statusUpdateOnly,
			ValidateUpdate: storage.ValidateAttachmentUpdate,
			Reset:          []string{"metadata", "spec"},
		},
		Columns: storage.AttachmentColumns(),
		Row:     storage.AttachmentRow,
	})
}

func csiDrivers() *Kind {
	return define(row[*storagev1.CSIDriver]{
		Name: "CSIDriver", Resource: "csidrivers", Cluster: true,
		Hub:     storagev1.SchemeGroupVersion,
		Default: storage.DefaultDriver,
		Former:  []Version{formerTwin[*storagev1beta1.CSIDriver](storagev1beta1.SchemeGroupVersion, storage.DefaultDriver)},
		Strategy: strategy[*storagev1.CSIDriver]{
			PrepareCreate: func(_ context.Context, d *storagev1.CSIDriver) { d.Spec.PreventPodSchedulingIfMissing = nil }, // off by default
			PrepareUpdate: func(_ context.Context, new, old *storagev1.CSIDriver) {
				if old.Spec.PreventPodSchedulingIfMissing == nil {
					new.Spec.PreventPodSchedulingIfMissing = nil
				}
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
					new.Generation = old.Generation + 1
				}
			},
			Validate:       storage.ValidateDriver,
			ValidateUpdate: storage.ValidateDriverUpdate,
			Warnings:       storage.DriverWarnings,
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
		},
		Columns: storage.DriverColumns(),
		Row:     storage.DriverRow,
	})
}

func csiNodes() *Kind {
	return define(row[*storagev1.CSINode]{
		Name: "CSINode", Resource: "csinodes", Cluster: true,
		Hub:    storagev1.SchemeGroupVersion,
		Former: []Version{formerTwin[*storagev1beta1.CSINode, *storagev1.CSINode](storagev1beta1.SchemeGroupVersion, nil)},
		Strategy: strategy[*storagev1.CSINode]{
			Meta:           MetaObjects,
			Validate:       storage.ValidateNode,
			ValidateUpdate: storage.ValidateNodeUpdate,
			ValidateName:   validation.NameIsDNSSubdomain,
			ReturnDeleted:  true,
		},
		Columns: storage.NodeColumns(),
		Row:     storage.NodeRow,
	})
}

func csiStorageCapacities() *Kind {
	return define(row[*storagev1.CSIStorageCapacity]{
		Name: "CSIStorageCapacity", Resource: "csistoragecapacities",
		Hub: storagev1.SchemeGroupVersion,
		Former: []Version{
			formerTwin[*storagev1beta1.CSIStorageCapacity, *storagev1.CSIStorageCapacity](storagev1beta1.SchemeGroupVersion, nil),
			formerTwin[*storagev1alpha1.CSIStorageCapacity, *storagev1.CSIStorageCapacity](storagev1alpha1.SchemeGroupVersion, nil),
		},
		Strategy: strategy[*storagev1.CSIStorageCapacity]{
			Validate:      storage.ValidateCapacity,
			ValidateAmong: wholeFirst(storage.ValidateCapacityUpdate, storage.ValidateCapacityChange),
			Warnings:      storage.CapacityWarnings,
			ValidateName:  validation.NameIsDNSSubdomain,
		},
	})
}

func volumeAttributesClasses() *Kind {
	return define(row[*storagev1.VolumeAttributesClass]{
		Name: "VolumeAttributesClass", Resource: "volumeattributesclasses", ShortNames: []string{"vac"}, Cluster: true,
		Hub:    storagev1.SchemeGroupVersion,
		Others: []Version{twinned[*storagev1beta1.VolumeAttributesClass, *storagev1.VolumeAttributesClass](storagev1beta1.SchemeGroupVersion, nil)},
		Former: []Version{formerTwin[*storagev1alpha1.VolumeAttributesClass, *storagev1.VolumeAttributesClass](storagev1alpha1.SchemeGroupVersion, nil)},
		Strategy: strategy[*storagev1.VolumeAttributesClass]{
			Validate:            storage.ValidateAttributes,
			ValidateAmong:       changeFirst(storage.ValidateAttributesChange, whatever(storage.ValidateAttributes)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			ReturnDeleted:       true,
		},
		Columns: storage.AttributesColumns(),
		Row:     storage.AttributesRow,
	})
}
