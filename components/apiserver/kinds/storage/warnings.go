package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ClassWarnings tell of labels of nodes that have another name by now.
func ClassWarnings(new, _ *storagev1.StorageClass) []string {
	var out []string
	for i := range new.AllowedTopologies {
		at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, e := range new.AllowedTopologies[i].MatchLabelExpressions {
			if text := podspec.NodeLabelWarning(e.Key); text != "" {
				out = append(out, fmt.Sprintf("%s: %s", at.Index(j).Child("key"), text))
			}
		}
	}
	return out
}

// CapacityWarnings tell of the same.
func CapacityWarnings(new, _ *storagev1.CSIStorageCapacity) []string {
	return podspec.NodeLabelsWarnings(new.NodeTopology, field.NewPath("nodeTopology"))
}
