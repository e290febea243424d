// Package storage holds the kinds of storage.k8s.io: their rows, defaults, validation and cells. It is pure.
package storage

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds() []*api.Kind {
	return []*api.Kind{
		storageClasses(),
		volumeAttachments(),
		csiDrivers(),
		csiNodes(),
		csiStorageCapacities(),
		volumeAttributesClasses(),
	}
}
