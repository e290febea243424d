package kinds

import (
	"context"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/storagemigration"
)

func storageVersionMigrations() *Kind {
	type migration = migrationv1beta1.StorageVersionMigration
	return define(row[*migration]{
		Name: "StorageVersionMigration", Resource: "storageversionmigrations", Cluster: true,
		Hub:  migrationv1beta1.SchemeGroupVersion,
		Gate: gates.StorageVersionMigrator,
		Strategy: strategy[*migration]{
			PrepareCreate: func(_ context.Context, m *migration) { m.Status = migrationv1beta1.StorageVersionMigrationStatus{} },
			PrepareUpdate: func(_ context.Context, new, old *migration) { new.Status = old.Status },
			Validate:      storagemigration.Validate,
			ValidateAmong: wholeFirst(whatever(storagemigration.Validate), storagemigration.ValidateChange),
			ValidateName:  validation.NameIsDNSSubdomain,
			Reset:         []string{"status"},
		},
		Status: &strategy[*migration]{
			PrepareUpdate: func(_ context.Context, new, old *migration) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			Meta:           MetaChanges,
			ValidateUpdate: storagemigration.ValidateStatus,
			Reset:          []string{"metadata", "spec"},
		},
		Columns: storagemigration.Columns(),
		Row:     storagemigration.Row,
	})
}
