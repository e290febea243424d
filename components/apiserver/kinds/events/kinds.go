// Package events holds the kind of events, which the core group and events.k8s.io serve: its row, the conversion
// between the two, validation and cells. It is pure.
package events

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{eventKind()}
}
