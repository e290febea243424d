package daemonset

import (
	"strconv"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/pods"
)

// tolerated are the taints that never keep a daemon off its node
// (https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations).
var tolerated = []v1.Toleration{
	{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodePIDPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
}

// newPod makes the set's pod for a node. The scheduler binds it, but may choose no other node.
func newPod(set *apps.DaemonSet, node, hash string) *v1.Pod {
	pod := pods.FromTemplate(&set.Spec.Template, set, *metav1.NewControllerRef(set, kind))
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if generation := set.Annotations[apps.DeprecatedTemplateGeneration]; generation != "" {
		if _, err := strconv.ParseInt(generation, 10, 64); err == nil {
			pod.Labels["pod-template-generation"] = generation
		}
	}
	if hash != "" {
		pod.Labels[apps.DefaultDaemonSetUniqueLabelKey] = hash
	}
	pin(&pod.Spec, node)
	tolerateNodes(&pod.Spec)
	return pod
}

// tolerateNodes adds the tolerations of all daemons.
func tolerateNodes(spec *v1.PodSpec) {
	for _, toleration := range tolerated {
		tolerate(spec, toleration)
	}
	if spec.HostNetwork {
		tolerate(spec, v1.Toleration{Key: v1.TaintNodeNetworkUnavailable, Operator: v1.TolerationOpExists,
			Effect: v1.TaintEffectNoSchedule})
	}
}

func tolerate(spec *v1.PodSpec, toleration v1.Toleration) {
	for i := range spec.Tolerations {
		if spec.Tolerations[i].MatchToleration(&toleration) {
			spec.Tolerations[i] = toleration
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, toleration)
}

// pin requires the node by name, in addition to what each term of the template requires.
func pin(spec *v1.PodSpec, node string) {
	byName := v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
		Values: []string{node}}
	if spec.Affinity == nil {
		spec.Affinity = &v1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil || len((*required).NodeSelectorTerms) == 0 {
		*required = &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{byName}}},
		}
		return
	}
	for i := range (*required).NodeSelectorTerms {
		term := &(*required).NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, byName)
	}
}
