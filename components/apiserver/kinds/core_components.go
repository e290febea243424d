package kinds

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

// componentStatuses are asked for when they are read: nothing of them is stored.
func componentStatuses(deps Deps) *Kind {
	read := deps.ComponentStatuses
	if read == nil {
		read = func(context.Context, string) []*corev1.ComponentStatus { return nil }
	}
	return define(row[*corev1.ComponentStatus]{
		Name: "ComponentStatus", Resource: "componentstatuses", ShortNames: []string{"cs"}, Cluster: true,
		Hub:     corev1.SchemeGroupVersion,
		Read:    read,
		Columns: core.ComponentColumns(),
		Row:     core.ComponentRow,
	})
}
