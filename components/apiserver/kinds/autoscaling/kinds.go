// Package autoscaling holds the kind of horizontal pod autoscalers: its row, the conversion between v1 and v2,
// defaults, validation and cells. It is pure.
package autoscaling

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{horizontalPodAutoscalers(deps)}
}
