package plugins

import (
	"cmp"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
)

func wholeNodeAffinity(*configv1.NodeAffinityArgs) {}

func newNodeAffinity(a *configv1.NodeAffinityArgs) (Plugin, error) {
	return nodeaffinity.New(a.AddedAffinity)
}

func wholeSpread(a *configv1.PodTopologySpreadArgs) {
	a.DefaultingType = cmp.Or(a.DefaultingType, configv1.SystemDefaulting)
}

func newSpread(a *configv1.PodTopologySpreadArgs) (Plugin, error) {
	switch a.DefaultingType {
	case configv1.SystemDefaulting:
		if len(a.DefaultConstraints) > 0 {
			return nil, errors.New("defaultConstraints: must be empty unless defaultingType is List")
		}
		return podtopologyspread.System(), nil
	case configv1.ListDefaulting:
	default:
		return nil, fmt.Errorf("defaultingType: unknown %q, use System or List", a.DefaultingType)
	}
	for i, c := range a.DefaultConstraints {
		switch {
		case c.LabelSelector != nil:
			return nil, fmt.Errorf("defaultConstraints[%d].labelSelector: must be empty, it is the pod's service or controller that selects", i)
		case c.TopologyKey == "" || c.MaxSkew <= 0:
			return nil, fmt.Errorf("defaultConstraints[%d]: topologyKey and a positive maxSkew are needed", i)
		case c.WhenUnsatisfiable != v1.DoNotSchedule && c.WhenUnsatisfiable != v1.ScheduleAnyway:
			return nil, fmt.Errorf("defaultConstraints[%d].whenUnsatisfiable: unknown %q", i, c.WhenUnsatisfiable)
		}
	}
	return &podtopologyspread.Plugin{Defaults: a.DefaultConstraints}, nil
}

func wholeInterPodAffinity(a *configv1.InterPodAffinityArgs) {
	a.HardPodAffinityWeight = cmp.Or(a.HardPodAffinityWeight, ptr.To[int32](1))
}

func newInterPodAffinity(a *configv1.InterPodAffinityArgs) (Plugin, error) {
	plugin := &interpodaffinity.Plugin{HardWeight: *a.HardPodAffinityWeight, IgnorePreferred: a.IgnorePreferredTermsOfExistingPods}
	if plugin.HardWeight < 0 || plugin.HardWeight > 100 {
		return nil, fmt.Errorf("hardPodAffinityWeight: %d is not in 0-100", plugin.HardWeight)
	}
	return plugin, nil
}

func wholePreemption(a *configv1.DefaultPreemptionArgs) {
	a.MinCandidateNodesPercentage = cmp.Or(a.MinCandidateNodesPercentage, ptr.To[int32](10))
	a.MinCandidateNodesAbsolute = cmp.Or(a.MinCandidateNodesAbsolute, ptr.To[int32](100))
}

func newPreemption(a *configv1.DefaultPreemptionArgs) (Plugin, error) {
	plugin := &defaultpreemption.Plugin{Percentage: int(*a.MinCandidateNodesPercentage), Absolute: int(*a.MinCandidateNodesAbsolute)}
	switch {
	case plugin.Percentage < 0 || plugin.Percentage > 100:
		return nil, fmt.Errorf("minCandidateNodesPercentage: %d is not in 0-100", plugin.Percentage)
	case plugin.Absolute < 0:
		return nil, fmt.Errorf("minCandidateNodesAbsolute: %d is negative", plugin.Absolute)
	case plugin.Percentage == 0 && plugin.Absolute == 0:
		return nil, errors.New("minCandidateNodesPercentage and minCandidateNodesAbsolute: one must not be 0")
	}
	return plugin, nil
}
