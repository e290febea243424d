package limitranger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// annotation tells people where the values of a pod come from.
const annotation = "kubernetes.io/limit-ranger"

// setDefaults gives containers the requests and limits that they don't name.
func setDefaults(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range r.Spec.Limits {
		if item := &r.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var set []string
	for _, containers := range []struct {
		kind string
		list []corev1.Container
	}{{"container", pod.Spec.Containers}, {"init container", pod.Spec.InitContainers}} {
		for i := range containers.list {
			c := &containers.list[i]
			set = append(set, fill(&c.Resources.Requests, requests, "request for "+containers.kind+" "+c.Name)...)
			set = append(set, fill(&c.Resources.Limits, limits, "limit for "+containers.kind+" "+c.Name)...)
		}
	}
	if len(set) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(set, "; ")
}

func fill(list *corev1.ResourceList, defaults corev1.ResourceList, what string) []string {
	var set []string
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if _, have := (*list)[name]; have {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = defaults[name].DeepCopy()
		set = append(set, string(name))
	}
	if len(set) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s %s", strings.Join(set, ", "), what)}
}
