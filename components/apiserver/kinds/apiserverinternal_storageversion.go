package kinds

import (
	"context"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/apiserverinternal"
)

func storageVersions() *Kind {
	type version = internalv1alpha1.StorageVersion
	return define(row[*version]{
		Name: "StorageVersion", Resource: "storageversions", Cluster: true,
		Hub: internalv1alpha1.SchemeGroupVersion,
		Strategy: strategy[*version]{
			PrepareCreate: func(_ context.Context, v *version) { v.Status = internalv1alpha1.StorageVersionStatus{} },
			PrepareUpdate: func(_ context.Context, new, old *version) { new.Status = old.Status },
			ValidateAmong: func(_, _ *version, _ MetaErrors) field.ErrorList { return nil },
			ValidateName:  apiserverinternal.ValidName,
			Reset:         []string{"status"},
		},
		Status: &strategy[*version]{
			PrepareUpdate: func(_ context.Context, new, old *version) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			ValidateAmong: func(new, old *version, _ MetaErrors) field.ErrorList {
				return apiserverinternal.ValidateStatus(new, old)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: apiserverinternal.Columns(),
		Row:     apiserverinternal.Row,
	})
}
