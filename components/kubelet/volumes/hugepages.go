package volumes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// inHugePages tells that a directory is made of huge pages, of the size that the pod requests or one that it names.
func inHugePages(medium v1.StorageMedium) bool {
	return medium == v1.StorageMediumHugePages ||
		strings.HasPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
}

// pageSize is the size of a medium's pages, in bytes. The pod has to request pages of it.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	sizes := map[int64]bool{}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		text, is := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !is || quantity.IsZero() {
			continue
		}
		size, err := resource.ParseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("resource %s: %w", name, err)
		}
		sizes[size.Value()] = true
	}
	if text, is := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)); is {
		size, err := resource.ParseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("medium %s: %w", medium, err)
		}
		if !sizes[size.Value()] {
			return 0, fmt.Errorf("medium %s: the pod requests no huge pages of that size", medium)
		}
		return size.Value(), nil
	}
	if len(sizes) != 1 {
		return 0, fmt.Errorf("medium %s can be used only if the pod requests huge pages of one size; it requests %d sizes",
			medium, len(sizes))
	}
	return slices.Collect(maps.Keys(sizes))[0], nil
}
