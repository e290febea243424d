// Package storagemigration holds the kind of migrations of stored objects: its row, validation and cells
// (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/). It is pure.
package storagemigration

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{storageVersionMigrations()}
}
