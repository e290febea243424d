// Package policy holds the kind of disruption budgets: its row, defaults, validation and cells. It is pure.
package policy

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds is the row alone.
func Kinds() []*api.Kind {
	return []*api.Kind{podDisruptionBudgets()}
}
