package plugins

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
)

func newNodeAffinity(args any) (Plugin, error) {
	if args == nil {
		return nodeaffinity.New(nil)
	}
	return nodeaffinity.New(args.(*configv1.NodeAffinityArgs).AddedAffinity)
}

func newSpread(args any) (Plugin, error) {
	if args == nil {
		return podtopologyspread.System(), nil
	}
	a := args.(*configv1.PodTopologySpreadArgs)
	switch a.DefaultingType {
	case configv1.SystemDefaulting, "":
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

func newInterPodAffinity(args any) (Plugin, error) {
	plugin := &interpodaffinity.Plugin{HardWeight: 1}
	if args == nil {
		return plugin, nil
	}
	a := args.(*configv1.InterPodAffinityArgs)
	plugin.IgnorePreferred = a.IgnorePreferredTermsOfExistingPods
	if a.HardPodAffinityWeight != nil {
		plugin.HardWeight = *a.HardPodAffinityWeight
	}
	if plugin.HardWeight < 0 || plugin.HardWeight > 100 {
		return nil, fmt.Errorf("hardPodAffinityWeight: %d is not in 0-100", plugin.HardWeight)
	}
	return plugin, nil
}

func newPreemption(args any) (Plugin, error) {
	plugin := &defaultpreemption.Plugin{Percentage: 10, Absolute: 100}
	if args == nil {
		return plugin, nil
	}
	a := args.(*configv1.DefaultPreemptionArgs)
	if a.MinCandidateNodesPercentage != nil {
		plugin.Percentage = int(*a.MinCandidateNodesPercentage)
	}
	if a.MinCandidateNodesAbsolute != nil {
		plugin.Absolute = int(*a.MinCandidateNodesAbsolute)
	}
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
