package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostUnits is the largest quantity that is calculated with, of mostDigits digits: in thousandths it fits into 64 bits.
const (
	mostUnits  = 9_000_000_000_000_000
	mostDigits = 16
)

// capQuantities returns the pod, or a copy of it whose quantities have no more than mostDigits digits before the
// decimal point. A quantity such as 1e999999999 is valid, but to compare it with another one writes all its digits out.
// No node has that much, so the pod is refused all the same.
func capQuantities(pod *v1.Pod) *v1.Pod {
	if !anyTooLarge(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	for _, list := range resourceLists(pod) {
		for name, quantity := range list {
			list[name] = capped(quantity)
		}
	}
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.SizeLimit != nil {
			*dir.SizeLimit = capped(*dir.SizeLimit)
		}
	}
	return pod
}

func capped(q resource.Quantity) resource.Quantity {
	if !tooLarge(q) {
		return q
	}
	return *resource.NewQuantity(mostUnits*int64(q.Sign()), q.Format)
}

// tooLarge counts the digits before the decimal point, from the length of the number and its power of ten.
func tooLarge(q resource.Quantity) bool {
	copied := q.DeepCopy() // AsDec changes it
	dec := copied.AsDec()
	digits := dec.UnscaledBig().BitLen()*30103/100000 + 1 // log10(2)
	return dec.Sign() != 0 && digits-int(dec.Scale()) > mostDigits
}

func anyTooLarge(pod *v1.Pod) bool {
	for _, list := range resourceLists(pod) {
		for _, quantity := range list {
			if tooLarge(quantity) {
				return true
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.SizeLimit != nil && tooLarge(*dir.SizeLimit) {
			return true
		}
	}
	return false
}

// resourceLists are the resource lists of the pod and its containers.
func resourceLists(pod *v1.Pod) []v1.ResourceList {
	lists := []v1.ResourceList{pod.Spec.Overhead}
	if r := pod.Spec.Resources; r != nil {
		lists = append(lists, r.Requests, r.Limits)
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			lists = append(lists, containers[i].Resources.Requests, containers[i].Resources.Limits)
		}
	}
	return lists
}
