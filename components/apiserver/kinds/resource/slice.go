package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func resourceSlices(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*resourcev1.ResourceSlice]{
		Name: "ResourceSlice", Resource: "resourceslices", Cluster: true,
		Hub: resourcev1.SchemeGroupVersion,
		Others: []api.Version{
			api.TwinVersion[*resourcev1beta2.ResourceSlice, *resourcev1.ResourceSlice](resourcev1beta2.SchemeGroupVersion,
				nil),
			api.OtherVersion(resourcev1beta1.SchemeGroupVersion, SliceFromV1beta1, SliceToV1beta1, nil),
		},
		OnRead: func(s *resourcev1.ResourceSlice) { StampTaints(s, deps.Now()) },
		Strategy: api.Strategy[*resourcev1.ResourceSlice]{
			ReturnDeleted: true,
			PrepareCreate: func(_ context.Context, s *resourcev1.ResourceSlice) {
				StampTaints(s, deps.Now())
				DropUnserved(s)
				s.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, new, old *resourcev1.ResourceSlice) {
				StampTaints(new, deps.Now())
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) { // a field that is dropped below counts
					new.Generation = old.Generation + 1
				}
				DropUnserved(new)
			},
			Validate:            api.OfObject(ValidateSlice),
			ValidateUpdate:      api.OfChange(ValidateSliceUpdate),
			Warnings:            api.OfChange(api.IgnoreOld(SliceWarnings)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: SliceColumns(),
		Row:     SliceRow,
		Fields: map[string]func(*resourcev1.ResourceSlice) string{
			resourcev1.ResourceSliceSelectorNodeName: func(s *resourcev1.ResourceSlice) string {
				return show.Or(s.Spec.NodeName, "")
			},
			resourcev1.ResourceSliceSelectorDriver: func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
		},
		Unselectable: "field label not supported for %[2]s, Kind=ResourceSlice: %[1]s",
		Indexed:      []string{resourcev1.ResourceSliceSelectorNodeName},
	})
}

// StampTaints notes when a taint came, where the driver doesn't tell.
func StampTaints(s *resourcev1.ResourceSlice, now time.Time) {
	for i := range s.Spec.Devices {
		for j := range s.Spec.Devices[i].Taints {
			if t := &s.Spec.Devices[i].Taints[j]; t.TimeAdded == nil {
				t.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
			}
		}
	}
}

// DropUnserved drops the fields of features that are off by default: lists as attributes, and resources of the node
// that devices stand for.
func DropUnserved(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.NodeAllocatableResourceMappings = nil
		for name, a := range d.Attributes {
			a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}

// SliceWarnings tell what will be refused some day.
func SliceWarnings(s *resourcev1.ResourceSlice) []string {
	if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters",
		s.Spec.Driver)}
}

// ValidateSlice checks a slice of a pool.
func ValidateSlice(s *resourcev1.ResourceSlice) field.ErrorList { return validateSlice(&s.Spec, nil) }

// ValidateSliceUpdate checks a change: the driver and its pool stay, and so does the node.
func ValidateSliceUpdate(new, old *resourcev1.ResourceSlice) field.ErrorList {
	return validateSlice(&new.Spec, &old.Spec)
}

func validateSlice(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := driverName(s.Driver, path.Child("driver"))
	errs = append(errs, validatePool(&s.Pool, path.Child("pool"))...)
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(s.Pool.Name, old.Pool.Name,
			path.Child("pool", "name"))...)
		errs = append(errs, validation.ValidateImmutableField(s.Driver, old.Driver, path.Child("driver"))...)
		errs = append(errs, validation.ValidateImmutableField(s.NodeName, old.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, whichNodes(s, path)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	errs = append(errs, distinct(s.Devices, maxDevices(s), path.Child("devices"),
		func(d resourcev1.Device) string { return d.Name },
		func(d resourcev1.Device, at *field.Path) field.ErrorList {
			return validateDevice(&d, named(old, d.Name), at, perDevice)
		})...)
	return append(errs, distinct(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, path.Child("sharedCounters"),
		func(c resourcev1.CounterSet) string { return c.Name },
		func(c resourcev1.CounterSet, at *field.Path) field.ErrorList {
			return append(requiredLabel(c.Name, at.Child("name")),
				validateCounters(c.Counters, at.Child("counters"), resourcev1.ResourceSliceMaxCountersPerCounterSet)...)
		})...)
}

// named is the device of a name, nil if there is none.
func named(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Devices, func(d resourcev1.Device) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Devices[i]
}

func validatePool(p *resourcev1.ResourcePool, path *field.Path) field.ErrorList {
	errs := poolName(p.Name, path.Child("name"))
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), p.ResourceSliceCount,
			"must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), p.Generation,
			"must be greater than or equal to zero"))
	}
	return errs
}

// maxDevices is less for devices that take more to look at.
func maxDevices(s *resourcev1.ResourceSliceSpec) int {
	for i := range s.Devices {
		if len(s.Devices[i].Taints) > 0 || len(s.Devices[i].ConsumesCounters) > 0 {
			return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	return resourcev1.ResourceSliceMaxDevices
}

// choice collects which of several fields is set, when one must be.
type choice struct {
	set  []string
	errs field.ErrorList
}

func (c *choice) add(name string, set bool) {
	if set {
		c.set = append(c.set, "`"+name+"`")
	}
}

// flag adds a field that can only be unset or true.
func (c *choice) flag(name string, v *bool, at *field.Path) {
	if v != nil && !*v {
		c.errs = append(c.errs, field.Invalid(at.Child(name), *v, "must be either unset or set to true"))
		return
	}
	c.add(name, v != nil)
}

func (c *choice) value() string { return "{" + strings.Join(c.set, ", ") + "}" }

// whichNodes checks that there is exactly one way to tell where a slice's devices are.
func whichNodes(s *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	var c choice
	if s.NodeName != nil {
		c.add("nodeName", *s.NodeName != "")
		if *s.NodeName == "" {
			c.errs = append(c.errs, field.Invalid(path.Child("nodeName"), "",
				"must be either unset or set to a non-empty string"))
		} else {
			c.errs = append(c.errs, checks.Text(*s.NodeName, path.Child("nodeName"), checks.Subdomain)...)
		}
	}
	if s.NodeSelector != nil {
		c.add("nodeSelector", true)
		c.errs = append(c.errs, oneTerm(s.NodeSelector, path.Child("nodeSelector"))...)
	}
	c.flag("allNodes", s.AllNodes, path)
	c.flag("perDeviceNodeSelection", s.PerDeviceNodeSelection, path)
	const rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch {
	case len(c.set) == 0:
		return append(c.errs, field.Required(path, rule))
	case len(c.set) > 1:
		return append(c.errs, field.Invalid(path, c.value(), rule+", but multiple fields are set"))
	}
	return c.errs
}

func oneTerm(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	errs := podspec.NodeSelector(s, path)
	if len(s.NodeSelectorTerms) != 1 {
		errs = append(errs, field.Invalid(path.Child("nodeSelectorTerms"), checks.Unversioned(s.NodeSelectorTerms),
			"must have exactly one node selector term"))
	}
	return errs
}

func validateCounters(m map[string]resourcev1.Counter, path *field.Path, max int) field.ErrorList {
	if len(m) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(m) > max {
		return field.ErrorList{field.TooMany(path, len(m), max)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(m)) {
		errs = append(errs, label(name, path)...)
	}
	return errs
}
