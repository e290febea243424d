// Package downward tells containers about themselves: the fields of their pod and the resources they were given
// (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/).
package downward

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns the value of a field of the pod, whose status holds the addresses that are known.
func Field(pod *v1.Pod, path string) (string, error) {
	if base, key, ok := subscript(path); ok {
		switch base {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("field %q can't be subscripted", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return format(pod.Labels), nil
	case "metadata.annotations":
		return format(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		ips := make([]string, len(pod.Status.HostIPs))
		for i := range ips {
			ips[i] = pod.Status.HostIPs[i].IP
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		ips := make([]string, len(pod.Status.PodIPs))
		for i := range ips {
			ips[i] = pod.Status.PodIPs[i].IP
		}
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("field %q is not one that the downward API offers", path)
}

// subscript splits "metadata.labels['key']".
func subscript(path string) (base, key string, ok bool) {
	base, rest, found := strings.Cut(path, "['")
	if !found || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return base, strings.TrimSuffix(rest, "']"), true
}

func format(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// Resource returns a request or limit of a container; a limit that is not set is what the node has.
func Resource(pod *v1.Pod, container string, ref *v1.ResourceFieldSelector,
	allocatable v1.ResourceList) (string, error) {
	name := ref.ContainerName
	if name == "" {
		name = container
	}
	c := find(pod, name)
	if c == nil {
		return "", fmt.Errorf("container %q of resource %q is not in the pod", name, ref.Resource)
	}
	kind, what, ok := strings.Cut(ref.Resource, ".")
	if !ok || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("resource %q is not one that the downward API offers", ref.Resource)
	}
	resourceName := v1.ResourceName(what)
	var quantity resource.Quantity
	if kind == "limits" {
		quantity = c.Resources.Limits[resourceName]
		if quantity.IsZero() {
			quantity = allocatable[resourceName]
		}
	} else {
		quantity = c.Resources.Requests[resourceName]
	}
	return divide(quantity, ref.Divisor, resourceName), nil
}

// divide rounds up; the divisor is 1 if it is not set.
func divide(quantity, divisor resource.Quantity, name v1.ResourceName) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == v1.ResourceCPU {
		return strconv.FormatInt(ceil(quantity.MilliValue(), divisor.MilliValue()), 10)
	}
	return strconv.FormatInt(ceil(quantity.Value(), divisor.Value()), 10)
}

func ceil(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return int64(math.Ceil(float64(a) / float64(b)))
}

func find(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
