package resource

import (
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

// TestOldConfigurations: what a driver is told may stay as long as it is, and be no other.
func TestOldConfigurations(t *testing.T) {
	with := func(text string) *resourcev1.DeviceClass {
		opaque := &resourcev1.OpaqueDeviceConfiguration{Driver: "d"}
		opaque.Parameters.Raw = []byte(text)
		return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{
			Config: []resourcev1.DeviceClassConfiguration{
				{DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: opaque}}},
		}}
	}
	long := with(`{"x":"` + strings.Repeat("y", resourcev1.OpaqueParametersMaxLength) + `"}`)
	tooLong := []string{"spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"}
	for _, c := range []struct {
		name     string
		new, old *resourcev1.DeviceClass
		want     []string
	}{
		{"new", long, &resourcev1.DeviceClass{}, tooLong},
		{"kept", long, long, nil},
		{"after another", long, with("{}"), tooLong},
		{"kept, but no object", with("[]"), with("[]"),
			[]string{`spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`}},
	} {
		if got := told(ValidateClassUpdate(c.new, c.old)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
