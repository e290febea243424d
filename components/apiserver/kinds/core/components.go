package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// componentStatuses are asked for when they are read: nothing of them is stored.
func componentStatuses(deps api.Deps) *api.Kind {
	read := deps.ComponentStatuses
	if read == nil {
		read = func(context.Context, string) []*corev1.ComponentStatus { return nil }
	}
	return api.Define(api.Row[*corev1.ComponentStatus]{
		Name: "ComponentStatus", Resource: "componentstatuses", ShortNames: []string{"cs"}, Cluster: true,
		Hub:     corev1.SchemeGroupVersion,
		Read:    read,
		Columns: ComponentColumns(),
		Row:     ComponentRow,
	})
}

// ComponentColumns are the columns of component statuses.
func ComponentColumns() show.Columns {
	return show.Name().
		String("Status", "Status of the component conditions").
		String("Message", "Message of the component conditions").
		String("Error", "Error of the component conditions")
}

// ComponentRow are the cells of a component status.
func ComponentRow(s *corev1.ComponentStatus) []any {
	for _, c := range s.Conditions {
		if c.Type != corev1.ComponentHealthy {
			continue
		}
		health := "Unhealthy"
		if c.Status == corev1.ConditionTrue {
			health = "Healthy"
		}
		return []any{s.Name, health, c.Message, c.Error}
	}
	return []any{s.Name, "Unknown", "", ""}
}
