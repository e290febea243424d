package framework

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"quintet.dev/quintet/components/scheduler/snapshot"
)

// nodeInfo is a fwk.NodeInfo of a node in the snapshot. What it returns must not be changed; Snapshot makes a copy
// whose pods may be.
type nodeInfo struct {
	node     *snapshot.Node
	snapshot *snapshot.Snapshot
}

var _ fwk.NodeInfo = (*nodeInfo)(nil)

func (n *nodeInfo) Node() *v1.Node { return n.node.Obj }
func (n *nodeInfo) String() string { return fmt.Sprintf("&NodeInfo{%s}", n.node.Name) }

func (n *nodeInfo) GetPods() []fwk.PodInfo {
	return n.pods(func(*snapshot.Pod) bool { return true })
}

func (n *nodeInfo) GetPodsWithAffinity() []fwk.PodInfo {
	return n.pods(func(p *snapshot.Pod) bool { return !p.Affinity.Empty() })
}

func (n *nodeInfo) GetPodsWithRequiredAntiAffinity() []fwk.PodInfo {
	return n.pods(func(p *snapshot.Pod) bool { return len(fwk.GetPodAntiAffinityTerms(p.Obj.Spec.Affinity)) > 0 })
}

func (n *nodeInfo) pods(is func(*snapshot.Pod) bool) []fwk.PodInfo {
	var infos []fwk.PodInfo
	for _, p := range n.node.Pods {
		if is(p) {
			infos = append(infos, podInfo{p})
		}
	}
	return infos
}

func (n *nodeInfo) GetUsedPorts() fwk.HostPortInfo {
	ports := fwk.HostPortInfo{}
	for _, p := range n.node.Ports {
		ports.Add(p.IP, string(p.Protocol), p.Port)
	}
	return ports
}

func (n *nodeInfo) GetRequested() fwk.Resource        { return &resources{Resources: n.node.Requested} }
func (n *nodeInfo) GetNonZeroRequested() fwk.Resource { return &resources{Resources: n.node.Scored} }
func (n *nodeInfo) GetAllocatable() fwk.Resource {
	return &resources{Resources: n.node.Allocatable, pods: n.node.AllowedPods}
}

func (n *nodeInfo) GetImageStates() map[string]*fwk.ImageStateSummary {
	states := make(map[string]*fwk.ImageStateSummary, len(n.node.Images))
	for image, size := range n.node.Images {
		states[image] = &fwk.ImageStateSummary{Size: size, NumNodes: n.snapshot.ImageSpread(image)}
	}
	return states
}

func (n *nodeInfo) GetPVCRefCounts() map[string]int {
	counts := map[string]int{}
	for _, p := range n.node.Pods {
		for _, c := range p.Claims {
			counts[c.String()]++
		}
	}
	return counts
}

func (n *nodeInfo) GetGeneration() int64 { return n.node.Generation }

func (n *nodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet {
	return ndf.DefaultFramework.TryMap(n.node.Obj.Status.DeclaredFeatures)
}

// GetNodeAllocatableDRAClaimState is empty: no devices are allocated.
func (*nodeInfo) GetNodeAllocatableDRAClaimState() map[types.NamespacedName]*fwk.NodeAllocatableDRAClaimState {
	return nil
}

func (n *nodeInfo) Snapshot() fwk.NodeInfo {
	return &nodeInfo{node: n.node.Clone(), snapshot: n.snapshot}
}

func (n *nodeInfo) AddPodInfo(p fwk.PodInfo) { n.node.Add(podOf(p)) }

func (n *nodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	if !n.node.Remove(pod.UID) {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.node.Name)
	}
	return nil
}

func (n *nodeInfo) SetNode(node *v1.Node) { n.node.Describe(node) }

// podInfo is a fwk.PodInfo.
type podInfo struct{ *snapshot.Pod }

var _ fwk.PodInfo = podInfo{}

// podOf returns the pod of an info, which may be of a plug-in's own making.
func podOf(p fwk.PodInfo) *snapshot.Pod {
	if own, ok := p.(podInfo); ok {
		return own.Pod
	}
	return snapshot.NewPod(p.GetPod())
}

func (p podInfo) GetPod() *v1.Pod { return p.Obj }

func (p podInfo) terms(of func(*v1.Affinity) []v1.PodAffinityTerm) []fwk.AffinityTerm {
	terms, err := fwk.GetAffinityTerms(p.Obj, of(p.Obj.Spec.Affinity))
	if err != nil {
		return nil // such a pod is refused before plug-ins see it
	}
	return terms
}

func (p podInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm {
	return p.terms(fwk.GetPodAffinityTerms)
}

func (p podInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm {
	return p.terms(fwk.GetPodAntiAffinityTerms)
}

func (p podInfo) weighted(of func(*v1.Affinity) []v1.WeightedPodAffinityTerm) []fwk.WeightedAffinityTerm {
	if p.Obj.Spec.Affinity == nil {
		return nil
	}
	terms, err := fwk.GetWeightedAffinityTerms(p.Obj, of(p.Obj.Spec.Affinity))
	if err != nil {
		return nil
	}
	return terms
}

func (p podInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.weighted(func(a *v1.Affinity) []v1.WeightedPodAffinityTerm {
		if a.PodAffinity == nil {
			return nil
		}
		return a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	})
}

func (p podInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.weighted(func(a *v1.Affinity) []v1.WeightedPodAffinityTerm {
		if a.PodAntiAffinity == nil {
			return nil
		}
		return a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	})
}

func (p podInfo) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &resources{Resources: p.Requests}, Non0CPU: p.Scored.CPU, Non0Mem: p.Scored.Memory}
}

// resources is a fwk.Resource.
type resources struct {
	snapshot.Resources
	pods int64
}

var _ fwk.Resource = (*resources)(nil)

func (r *resources) GetMilliCPU() int64         { return r.CPU }
func (r *resources) GetMemory() int64           { return r.Memory }
func (r *resources) GetEphemeralStorage() int64 { return r.Ephemeral }
func (r *resources) GetAllowedPodNumber() int   { return int(r.pods) }

func (r *resources) GetScalarResources() map[v1.ResourceName]int64 { return r.Scalar }

func (r *resources) SetMaxResource(list v1.ResourceList) {
	most := snapshot.ResourcesOf(list)
	r.CPU, r.Memory, r.Ephemeral = max(r.CPU, most.CPU), max(r.Memory, most.Memory), max(r.Ephemeral, most.Ephemeral)
	scalar := maps.Clone(r.Scalar)
	for name, amount := range most.Scalar {
		if scalar == nil {
			scalar = map[v1.ResourceName]int64{}
		}
		scalar[name] = max(scalar[name], amount)
	}
	r.Scalar = scalar
}
