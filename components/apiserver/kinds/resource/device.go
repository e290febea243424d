package resource

import (
	"maps"
	"regexp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// validateDevice checks a device; old is what it was, nil if it is new: taints that it keeps aren't looked at again.
// perDevice tells that each device says on its own where it is.
func validateDevice(d, old *resourcev1.Device, at *field.Path, perDevice bool) field.ErrorList {
	errs := label(d.Name, at.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(at, n, "the total number of attributes and capacities must not exceed 32"))
	}
	if n := len(d.Attributes); n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(at, n, "the total number of attribute values must not exceed 48"))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		a := d.Attributes[name]
		errs = append(errs, qualifiedName(string(name), at.Child("attributes"))...)
		errs = append(errs, validateAttribute(&a, at.Child("attributes").Key(shorten(name)))...)
	}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		errs = append(errs, qualifiedName(string(name), at.Child("capacity"))...)
		errs = append(errs, validateCapacity(&c, at.Child("capacity").Key(shorten(name)), shared)...)
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, each(d.Taints, resourcev1.DeviceTaintsMaxLength, at.Child("taints"), validateTaint)...)
	}
	errs = append(errs, distinct(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice,
		at.Child("consumesCounters"),
		func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c resourcev1.DeviceCounterConsumption, at *field.Path) field.ErrorList {
			return append(requiredLabel(c.CounterSet, at.Child("counterSet")),
				validateCounters(c.Counters, at.Child("counters"),
					resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption)...)
		})...)
	errs = append(errs, whichNode(d, at, perDevice)...)
	return append(errs, bindingConditions(d.BindingConditions, d.BindingFailureConditions, at)...)
}

// shorten makes a name that is too long short enough to be told.
func shorten(name resourcev1.QualifiedName) string {
	const max, cut = resourcev1.DeviceMaxDomainLength + len("/") + resourcev1.DeviceMaxIDLength, "..."
	if len(name) <= max {
		return string(name)
	}
	end := (max - len(cut)) / 2
	return string(name[:max-len(cut)-end]) + cut + string(name[len(name)-end:])
}

func whichNode(d *resourcev1.Device, at *field.Path, perDevice bool) field.ErrorList {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(at, nil,
				"`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "+
					"ResourceSlice spec")}
		}
		return nil
	}
	var c choice
	if d.NodeName != nil {
		c.add("nodeName", *d.NodeName != "")
		if *d.NodeName == "" {
			c.errs = append(c.errs, field.Invalid(at.Child("nodeName"), "", "must not be empty"))
		} else {
			c.errs = append(c.errs, checks.Text(*d.NodeName, at.Child("nodeName"), checks.Subdomain)...)
		}
	}
	if d.NodeSelector != nil {
		c.add("nodeSelector", true)
		c.errs = append(c.errs, podspec.NodeSelector(d.NodeSelector, at.Child("nodeSelector"))...)
	}
	c.flag("allNodes", d.AllNodes, at)
	const rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is " +
		"set to true in the ResourceSlice spec"
	switch {
	case len(c.set) == 0:
		return append(c.errs, field.Required(at, rule))
	case len(c.set) > 1:
		return append(c.errs, field.Invalid(at, c.value(), rule))
	}
	return c.errs
}

// version is a semantic version 2.0.0, whose numbers may be of any size.
var version = func() *regexp.Regexp {
	const number, build = `(?:0|[1-9][0-9]*)`, `[0-9A-Za-z-]+`
	const pre = `(?:` + number + `|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number + `(?:-` + pre + `(?:\.` + pre +
		`)*)?(?:\+` + build + `(?:\.` + build + `)*)?$`)
}()

func validateAttribute(a *resourcev1.DeviceAttribute, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	set := 0
	if a.IntValue != nil {
		set++
	}
	if a.BoolValue != nil {
		set++
	}
	if a.StringValue != nil {
		set++
		errs = append(errs, shortEnough(*a.StringValue, at.Child("string"))...)
	}
	if a.VersionValue != nil {
		set++
		if !version.MatchString(*a.VersionValue) {
			errs = append(errs, field.Invalid(at.Child("version"), *a.VersionValue,
				"must be a string compatible with semver.org spec 2.0.0"))
		}
		errs = append(errs, shortEnough(*a.VersionValue, at.Child("version"))...)
	}
	switch set {
	case 0:
		errs = append(errs, field.Invalid(at, "", "exactly one value must be specified"))
	case 1:
	default:
		errs = append(errs, field.Invalid(at, checks.Unversioned(a), "exactly one value must be specified"))
	}
	return errs
}

func shortEnough(text string, at *field.Path) field.ErrorList {
	if len(text) > resourcev1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(at, "", resourcev1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

func validateTaint(t resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
	return append(keyAndValue(&t, at), taintEffect(t.Effect, at.Child("effect"))...)
}

func keyAndValue(t *resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
	return append(labelKey(t.Key, at.Child("key")),
		checks.Text(t.Value, at.Child("value"), utilvalidation.IsValidLabelValue)...)
}

// bindingConditions checks the conditions that tell whether a device became ready for its pod, or failed to: there are
// both or none, and none is in both lists.
func bindingConditions(ready, failed []string, at *field.Path) field.ErrorList {
	readyAt, failedAt := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	errs := each(ready, resourcev1.BindingConditionsMaxSize, readyAt, labelKey)
	errs = append(errs, each(failed, resourcev1.BindingFailureConditionsMaxSize, failedAt, labelKey)...)
	errs = append(errs, twice(ready, readyAt, same[string])...)
	allReady, seen := sets.New(ready...), sets.New[string]()
	for i, c := range failed {
		if seen.Has(c) {
			errs = append(errs, field.Duplicate(failedAt.Index(i), c))
		}
		seen.Insert(c)
		if allReady.Has(c) {
			errs = append(errs, field.Invalid(failedAt.Index(i), c,
				"bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(ready) == 0 && len(failed) > 0:
		errs = append(errs, field.Invalid(readyAt, ready,
			"bindingConditions are required to use bindingFailureConditions"))
	case len(ready) > 0 && len(failed) == 0:
		errs = append(errs, field.Invalid(failedAt, failed,
			"bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
