// Package apiserverinternal holds the kind of storage versions, by which API servers tell each other how they store
// objects. It is pure.
package apiserverinternal

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{storageVersions()}
}
