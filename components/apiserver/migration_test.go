package apiserver_test

import (
	"testing"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestStorageVersionMigrations: they are served if both the gate and --runtime-config say so.
func TestStorageVersionMigrations(t *testing.T) {
	const role = "system:controller:storage-version-migrator-controller"
	for _, gate := range []bool{true, false} {
		f := start(t, func(c *options.Config) {
			c.FeatureGates = map[string]bool{"StorageVersionMigrator": gate}
			if gate {
				c.RuntimeConfig = map[string]string{"storagemigration.k8s.io/v1beta1": "true"}
			}
		})
		client := f.client(t)
		if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), role,
			metav1.GetOptions{}); apierrors.IsNotFound(err) == gate {
			t.Errorf("gate %v: the controller's role: %v", gate, err)
		}
		migrations := client.StoragemigrationV1beta1().StorageVersionMigrations()
		m := &migrationv1beta1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
		m.Spec.Resource.Resource = "secrets"
		m.Status.ResourceVersion = "5"
		made, err := migrations.Create(t.Context(), m, metav1.CreateOptions{})
		if !gate {
			if !apierrors.IsNotFound(err) {
				t.Errorf("without the gate: %v", err)
			}
			continue
		}
		if err != nil || made.Status.ResourceVersion != "" {
			t.Fatalf("%v, %v", made, err)
		}
		made.Status.ResourceVersion = "7"
		made.Spec.Resource.Resource = "pods"
		if made, err = migrations.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil ||
			made.Status.ResourceVersion != "7" || made.Spec.Resource.Resource != "secrets" {
			t.Errorf("%v, %v", made, err)
		}
	}
}
