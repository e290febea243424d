package resource

import (
	"fmt"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func told(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestManyAttributes(t *testing.T) {
	for n, want := range map[int][]string{
		32: nil,
		33: {"d: Invalid value: 33: the total number of attributes and capacities must not exceed 32"},
		49: {"d: Invalid value: 49: the total number of attributes and capacities must not exceed 32",
			"d: Invalid value: 49: the total number of attribute values must not exceed 48"},
	} {
		d := &resourcev1.Device{Name: "d", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for i := range n {
			d.Attributes[resourcev1.QualifiedName(fmt.Sprintf("a%d", i))] = resourcev1.DeviceAttribute{
				BoolValue: ptr.To(true)}
		}
		if got := told(validateDevice(d, nil, field.NewPath("d"), false)); !slices.Equal(got, want) {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestBindingConditions(t *testing.T) {
	const needed, other = "bindingConditions are required to use bindingFailureConditions",
		"bindingFailureConditions are required to use bindingConditions"
	for _, c := range []struct {
		name          string
		ready, failed []string
		want          []string
	}{
		{"none", nil, nil, nil},
		{"both", []string{"a"}, []string{"b"}, nil},
		{"no failure, twice", []string{"a", "a"}, nil, []string{
			`d.bindingConditions[1]: Duplicate value: "a"`,
			`d.bindingFailureConditions: Invalid value: null: ` + other}},
		{"failures alone", nil, []string{"b"}, []string{`d.bindingConditions: Invalid value: null: ` + needed}},
		{"one for both, twice", []string{"a"}, []string{"b", "a", "a"}, []string{
			`d.bindingFailureConditions[1]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`,
			`d.bindingFailureConditions[2]: Duplicate value: "a"`,
			`d.bindingFailureConditions[2]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`}},
		{"too many, whose names aren't looked at", []string{"", "a", "a", "b", "c"}, []string{"b"}, []string{
			`d.bindingConditions: Too many: 5: must have at most 4 items`,
			`d.bindingConditions[2]: Duplicate value: "a"`,
			`d.bindingFailureConditions[0]: Invalid value: "b": bindingFailureConditions must not overlap with bindingConditions`}},
	} {
		if got := told(bindingConditions(c.ready, c.failed, field.NewPath("d"))); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestOldTaints: the taints of a device are looked at when they change.
func TestOldTaints(t *testing.T) {
	slice := func(name string, effects ...resourcev1.DeviceTaintEffect) *resourcev1.ResourceSlice {
		d := resourcev1.Device{Name: name}
		for _, e := range effects {
			d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: "k", Effect: e})
		}
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
			Driver: "d", Pool: resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1}, AllNodes: ptr.To(true),
			Devices: []resourcev1.Device{d},
		}}
	}
	for _, c := range []struct {
		name     string
		new, old *resourcev1.ResourceSlice
		want     string
	}{
		{"kept", slice("a", "Never"), slice("a", "Never"), "[]"},
		{"changed", slice("a", "Never"), slice("a", "NoSchedule"), "[spec.devices[0].taints[0].effect]"},
		{"one more", slice("a", "Never", "NoSchedule"), slice("a", "Never"), "[spec.devices[0].taints[0].effect]"},
		{"of another device", slice("a", "Never"), slice("b", "Never"), "[spec.devices[0].taints[0].effect]"},
	} {
		got := []string{}
		for _, err := range ValidateSliceUpdate(c.new, c.old) {
			got = append(got, err.Field)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
