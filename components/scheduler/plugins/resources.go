package plugins

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins/noderesources"
)

func newFit(args any) (Plugin, error) {
	fit := &noderesources.Fit{Strategy: noderesources.Strategy{
		Resources: noderesources.DefaultResources(), Rate: noderesources.LeastAllocated,
	}}
	if args == nil {
		return fit, nil
	}
	a := args.(*configv1.NodeResourcesFitArgs)
	fit.IgnoredResources, fit.IgnoredGroups = a.IgnoredResources, a.IgnoredResourceGroups
	if a.ScoringStrategy == nil {
		return fit, nil
	}
	resources, err := weighted(a.ScoringStrategy.Resources)
	if err != nil {
		return nil, err
	}
	fit.Strategy.Resources = resources
	switch a.ScoringStrategy.Type {
	case configv1.LeastAllocated, "":
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

func newBalanced(args any) (Plugin, error) {
	if args == nil {
		return &noderesources.Balanced{Resources: noderesources.DefaultResources()}, nil
	}
	resources, err := weighted(args.(*configv1.NodeResourcesBalancedAllocationArgs).Resources)
	return &noderesources.Balanced{Resources: resources}, err
}

func weighted(specs []configv1.ResourceSpec) ([]noderesources.Resource, error) {
	if len(specs) == 0 {
		return noderesources.DefaultResources(), nil
	}
	var resources []noderesources.Resource
	for i, spec := range specs {
		if spec.Weight == 0 {
			spec.Weight = 1
		}
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
