package statefulset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

// ordinal is the number in the pod's name; -1 if it has none of this set.
func ordinal(set *apps.StatefulSet, pod *v1.Pod) int {
	text, ours := strings.CutPrefix(pod.Name, set.Name+"-")
	n, err := strconv.Atoi(text)
	if !ours || err != nil || n < 0 || strconv.Itoa(n) != text {
		return -1
	}
	return n
}

func first(set *apps.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

func replicas(set *apps.StatefulSet) int { return int(ptr.Deref(set.Spec.Replicas, 1)) }

func podName(set *apps.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// newPod makes the pod of an ordinal, with its stable name, network identity and storage
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-identity).
func newPod(set *apps.StatefulSet, template *v1.PodTemplateSpec, revision string, ordinal int) *v1.Pod {
	pod := pods.FromTemplate(template, set, *metav1.NewControllerRef(set, kind))
	pod.Name = podName(set, ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, identity(pod.Name, ordinal))
	pod.Labels[apps.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = set.Spec.ServiceName
	for _, claim := range claims(set, ordinal) {
		name := templateName(set, claim, ordinal)
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	return pod
}

// identity are the labels that tell which pod of the set a pod is.
func identity(name string, ordinal int) map[string]string {
	return map[string]string{apps.StatefulSetPodNameLabel: name, apps.PodIndexLabel: strconv.Itoa(ordinal)}
}

func templateName(set *apps.StatefulSet, claim *v1.PersistentVolumeClaim, ordinal int) string {
	return strings.TrimSuffix(claim.Name, "-"+podName(set, ordinal))
}

// claims are the volume claims of an ordinal.
func claims(set *apps.StatefulSet, ordinal int) []*v1.PersistentVolumeClaim {
	var made []*v1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		claim := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		claim.Name = claim.Name + "-" + podName(set, ordinal)
		claim.Namespace = set.Namespace
		claim.Status = v1.PersistentVolumeClaimStatus{}
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
		made = append(made, claim)
	}
	return made
}

// owners are the references that a claim should have to this set and its pod, by the retention policy
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention): pod is
// the condemned pod of the claim, nil if the ordinal stays.
func owners(set *apps.StatefulSet, pod *v1.Pod) []metav1.OwnerReference {
	policy := ptr.Deref(set.Spec.PersistentVolumeClaimRetentionPolicy,
		apps.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	switch {
	case pod != nil && policy.WhenScaled == apps.DeletePersistentVolumeClaimRetentionPolicyType:
		return []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
	case policy.WhenDeleted == apps.DeletePersistentVolumeClaimRetentionPolicyType:
		return []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)}
	}
	return nil
}

// retained returns the references of a claim after those to the set and its pod were set to wanted; changed tells
// whether that differs. A claim that something else controls is left alone.
func retained(set *apps.StatefulSet, claim *v1.PersistentVolumeClaim, pod string,
	wanted []metav1.OwnerReference) (refs []metav1.OwnerReference, changed bool) {
	for _, ref := range claim.OwnerReferences {
		ours := ref.UID == set.UID || (ref.Kind == "Pod" && ref.Name == pod)
		if !ours && ptr.Deref(ref.Controller, false) {
			return claim.OwnerReferences, false
		}
		if !ours {
			refs = append(refs, ref)
		}
	}
	refs = append(refs, wanted...)
	same := slices.EqualFunc(refs, claim.OwnerReferences, func(a, b metav1.OwnerReference) bool {
		return a.UID == b.UID && a.Name == b.Name && ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false)
	})
	return refs, !same
}
