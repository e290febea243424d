package plugins

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
)

// compiledSelectors is how many selectors of device classes are kept compiled.
const compiledSelectors = 10

func wholeFit(a *configv1.NodeResourcesFitArgs) {
	if a.ScoringStrategy == nil {
		a.ScoringStrategy = &configv1.ScoringStrategy{}
	}
	a.ScoringStrategy.Type = cmp.Or(a.ScoringStrategy.Type, configv1.LeastAllocated)
	a.ScoringStrategy.Resources = wholeSpecs(a.ScoringStrategy.Resources)
}

func wholeBalanced(a *configv1.NodeResourcesBalancedAllocationArgs) {
	a.Resources = wholeSpecs(a.Resources)
}

func wholeSpecs(specs []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(specs) == 0 {
		for _, r := range noderesources.DefaultResources() {
			specs = append(specs, configv1.ResourceSpec{Name: string(r.Name), Weight: r.Weight})
		}
	}
	for i := range specs {
		specs[i].Weight = cmp.Or(specs[i].Weight, 1)
	}
	return specs
}

func newFit(a *configv1.NodeResourcesFitArgs, d Dependencies) (Plugin, error) {
	resources, err := weighted(a.ScoringStrategy.Resources)
	if err != nil {
		return nil, err
	}
	fit := &noderesources.Fit{
		Strategy:         noderesources.Strategy{Resources: resources, Rate: noderesources.LeastAllocated},
		IgnoredResources: slices.Concat(a.IgnoredResources, d.IgnoredResources), IgnoredGroups: a.IgnoredResourceGroups,
		Devices: d.Devices.ExtendedResource,
	}
	if fit.Devices {
		fit.Selectors = cel.NewCache(compiledSelectors, cel.Features{
			EnableConsumableCapacity: d.Devices.ConsumableCapacity,
			EnableListTypeAttributes: d.Devices.ListTypeAttributes,
		})
	}
	switch a.ScoringStrategy.Type {
	case configv1.LeastAllocated:
	case configv1.MostAllocated:
		fit.Strategy.Rate = noderesources.MostAllocated
	case configv1.RequestedToCapacityRatio:
		points, err := shape(a.ScoringStrategy.RequestedToCapacityRatio)
		if err != nil {
			return nil, err
		}
		fit.Strategy.Rate, fit.Strategy.Ratio = noderesources.Shape(points), true
	default:
		return nil, fmt.Errorf("scoringStrategy.type: unknown %q", a.ScoringStrategy.Type)
	}
	return fit, nil
}

func newBalanced(a *configv1.NodeResourcesBalancedAllocationArgs) (Plugin, error) {
	resources, err := weighted(a.Resources)
	return &noderesources.Balanced{Resources: resources}, err
}

func weighted(specs []configv1.ResourceSpec) ([]noderesources.Resource, error) {
	var resources []noderesources.Resource
	for i, spec := range specs {
		if spec.Weight < 1 || spec.Weight > 100 {
			return nil, fmt.Errorf("resources[%d].weight: %d is not in 1-100", i, spec.Weight)
		}
		resources = append(resources, noderesources.Resource{Name: v1.ResourceName(spec.Name), Weight: spec.Weight})
	}
	return resources, nil
}

func shape(param *configv1.RequestedToCapacityRatioParam) ([]noderesources.Point, error) {
	if param == nil || len(param.Shape) == 0 {
		return nil, fmt.Errorf("scoringStrategy.requestedToCapacityRatio.shape: at least one point is needed")
	}
	var points []noderesources.Point
	for i, p := range param.Shape {
		switch {
		case p.Utilization < 0 || p.Utilization > 100:
			return nil, fmt.Errorf("shape[%d].utilization: %d is not in 0-100", i, p.Utilization)
		case p.Score < 0 || p.Score > 10:
			return nil, fmt.Errorf("shape[%d].score: %d is not in 0-10", i, p.Score)
		case i > 0 && p.Utilization <= param.Shape[i-1].Utilization:
			return nil, fmt.Errorf("shape[%d].utilization: must be greater than that of the point before", i)
		}
		points = append(points, noderesources.Point{Utilization: int64(p.Utilization), Score: int64(p.Score)})
	}
	return points, nil
}
