package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// PlainColumns are the columns of classes and templates.
func PlainColumns() show.Columns { return show.Name().Age() }

// ClassRow are the cells of a device class.
func ClassRow(c *resourcev1.DeviceClass) []any {
	return []any{c.Name, show.Age(c.CreationTimestamp)}
}

// TemplateRow are the cells of a template.
func TemplateRow(t *resourcev1.ResourceClaimTemplate) []any {
	return []any{t.Name, show.Age(t.CreationTimestamp)}
}

// ClaimColumns are the columns of claims.
func ClaimColumns() show.Columns {
	return show.Name().String("State", "A summary of the current state (allocated, pending, reserved, etc.).").Age()
}

// ClaimRow are the cells of a claim.
func ClaimRow(c *resourcev1.ResourceClaim) []any {
	return []any{c.Name, ClaimState(c), show.Age(c.CreationTimestamp)}
}

// SliceColumns are the columns of slices.
func SliceColumns() show.Columns {
	spec := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return show.Name().
		String("Node", spec["nodeName"]).
		String("Driver", spec["driver"]).
		String("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]).
		Age()
}

// SliceRow are the cells of a slice.
func SliceRow(s *resourcev1.ResourceSlice) []any {
	return []any{
		s.Name, show.Or(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, show.Age(s.CreationTimestamp),
	}
}
