// Package nodedeclaredfeatures refuses nodes whose kubelet does not declare a feature that the pod needs (KEP-5328).
package nodedeclaredfeatures

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "NodeDeclaredFeatures"

// Plugin is a cycle.Filter.
type Plugin struct {
	// Version of this scheduler; features that all nodes of it have are not asked for.
	Version *version.Version
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Hints say that nodes help by what they declare.
func (f *Plugin) Hints() []queue.Hint {
	return []queue.Hint{{Kinds: queue.NodeAdded | queue.NodeFeatures}}
}

// Filter finds out which features the pod needs; most need none.
func (f *Plugin) Filter(p *snapshot.Pod, _ *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	info := &types.PodInfo{Spec: &p.Obj.Spec}
	needed, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(info, f.Version)
	if err != nil {
		return nil, &cycle.Refusal{Err: err}
	}
	if needed.IsEmpty() {
		return nil, nil
	}
	return test{needed}, nil
}

type test struct {
	needed nodedeclaredfeatures.FeatureSet
}

// Check implements cycle.Test.
func (t test) Check(n *snapshot.Node) *cycle.Refusal {
	result, err := nodedeclaredfeatures.DefaultFramework.MatchNode(t.needed, n.Obj)
	if err != nil {
		return &cycle.Refusal{Err: err}
	}
	if result.IsMatch {
		return nil
	}
	lacking := strings.Join(result.UnsatisfiedRequirements, ", ")
	return &cycle.Refusal{Unresolvable: true, Reasons: []string{
		fmt.Sprintf("node declared features check failed - unsatisfied requirements: %s", lacking)}}
}
