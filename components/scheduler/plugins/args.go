package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/plugins/defaultpreemption"
	"quintet.dev/quintet/components/scheduler/plugins/dynamicresources"
	"quintet.dev/quintet/components/scheduler/plugins/interpodaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/nodeaffinity"
	"quintet.dev/quintet/components/scheduler/plugins/podtopologyspread"
	"quintet.dev/quintet/components/scheduler/plugins/volumebinding"
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
			return nil,
				fmt.Errorf("defaultConstraints[%d].labelSelector: must be empty, it is the pod's service or controller that "+
					"selects", i)
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
	plugin := &interpodaffinity.Plugin{HardWeight: *a.HardPodAffinityWeight,
		IgnorePreferred: a.IgnorePreferredTermsOfExistingPods}
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
	plugin := &defaultpreemption.Plugin{Percentage: int(*a.MinCandidateNodesPercentage),
		Absolute: int(*a.MinCandidateNodesAbsolute)}
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

func wholeVolumeBinding(a *configv1.VolumeBindingArgs) {
	a.BindTimeoutSeconds = cmp.Or(a.BindTimeoutSeconds, ptr.To(int64(volumebinding.DefaultTimeout/time.Second)))
}

func newVolumeBinding(a *configv1.VolumeBindingArgs, d Dependencies) (Plugin, error) {
	switch {
	case *a.BindTimeoutSeconds < 0:
		return nil, fmt.Errorf("bindTimeoutSeconds: %d is negative", *a.BindTimeoutSeconds)
	case len(a.Shape) > 0:
		return nil, errors.New("shape: needs the feature gate StorageCapacityScoring, which is not supported")
	}
	return &volumebinding.Plugin{Client: d.Client, Timeout: time.Duration(*a.BindTimeoutSeconds) * time.Second,
		Failed: d.VolumesFailed}, nil
}

func wholeDynamicResources(a *configv1.DynamicResourcesArgs) {
	if a.FilterTimeout == nil {
		a.FilterTimeout = &metav1.Duration{Duration: dynamicresources.DefaultFilterTimeout}
	}
	if a.BindingTimeout == nil {
		a.BindingTimeout = &metav1.Duration{Duration: dynamicresources.DefaultBindingTimeout}
	}
}

func newDynamicResources(a *configv1.DynamicResourcesArgs, d Dependencies) (Plugin, error) {
	switch {
	case a.FilterTimeout.Duration < 0:
		return nil, fmt.Errorf("filterTimeout: %v is negative", a.FilterTimeout.Duration)
	case a.BindingTimeout.Duration <= 0:
		return nil, fmt.Errorf("bindingTimeout: %v is not positive", a.BindingTimeout.Duration)
	}
	return dynamicresources.New(dynamicresources.Config{
		Features: d.Devices, FilterTimeout: a.FilterTimeout.Duration, BindingTimeout: a.BindingTimeout.Duration,
		Clock: d.Clock, Client: d.Client, Claim: d.ResourceClaim, Created: d.ClaimCreated, Awaited: d.DevicesAwaited,
	}), nil
}
