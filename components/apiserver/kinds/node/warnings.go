package node

import (
	"fmt"
	"maps"
	"slices"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// Warnings tell of labels of nodes that have another name by now.
func Warnings(new, _ *nodev1.RuntimeClass) []string {
	if new.Scheduling == nil {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(new.Scheduling.NodeSelector)) {
		if text := podspec.NodeLabelWarning(key); text != "" {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("scheduling", "nodeSelector"), text))
		}
	}
	return out
}
