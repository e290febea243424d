package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

// ValidateStatusUpdate checks a change of the allocation, of its consumers, and of the drivers' device status.
func ValidateStatusUpdate(new, old *resourcev1.ResourceClaim) field.ErrorList {
	path, known := field.NewPath("status"), requestsOf(&new.Spec)
	is, was := &new.Status, &old.Status
	errs := distinct(is.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, path.Child("reservedFor"),
		func(r resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, validateConsumer)
	devices := allocated(is.Allocation)
	for i := range is.Devices {
		errs = append(errs, validateDeviceStatus(&is.Devices[i], path.Child("devices").Index(i), devices)...)
	}
	errs = append(errs, twice(is.Devices, path.Child("devices"),
		func(d resourcev1.AllocatedDeviceStatus) deviceID { return idOf(&d) })...)
	switch at := path.Child("reservedFor"); {
	case is.Allocation == nil && len(is.ReservedFor) > 0:
		errs = append(errs, field.Forbidden(at, "may not be specified when `allocated` is not set"))
	case is.Allocation != nil && new.DeletionTimestamp != nil && added(is.ReservedFor, was.ReservedFor):
		errs = append(errs, field.Forbidden(at,
			"new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	if was.Allocation != nil && is.Allocation != nil {
		errs = append(errs, immutable(is.Allocation, was.Allocation, path.Child("allocation"))...)
	} else if is.Allocation != nil {
		errs = append(errs, validateAllocation(is.Allocation, path.Child("allocation"), known)...)
	}
	return errs
}

func added(new, old []resourcev1.ResourceClaimConsumerReference) bool {
	return len(sets.New(new...).Difference(sets.New(old...))) > 0
}

func validateConsumer(r resourcev1.ResourceClaimConsumerReference, at *field.Path) field.ErrorList {
	errs := checks.Required(r.Resource, at.Child("resource"))
	errs = append(errs, checks.Required(r.Name, at.Child("name"))...)
	return append(errs, checks.Required(string(r.UID), at.Child("uid"))...)
}

func validateAllocation(a *resourcev1.AllocationResult, path *field.Path, known requests) field.ErrorList {
	devices := path.Child("devices")
	errs := each(a.Devices.Results, resourcev1.AllocationResultsMaxSize, devices.Child("results"),
		func(r resourcev1.DeviceRequestAllocationResult, at *field.Path) field.ErrorList {
			return validateResult(&r, at, known)
		})
	errs = append(errs, each(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, devices.Child("config"),
		func(c resourcev1.DeviceAllocationConfiguration, at *field.Path) field.ErrorList {
			errs := checks.OneOf(c.Source, at.Child("source"), resourcev1.AllocationConfigSourceClaim,
				resourcev1.AllocationConfigSourceClass)
			errs = append(errs, known.references(c.Requests, at.Child("requests"))...)
			return append(errs, configuration(&c.DeviceConfiguration, at, false)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.NodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

func validateResult(r *resourcev1.DeviceRequestAllocationResult, at *field.Path, known requests) field.ErrorList {
	errs := known.reference(r.Request, at.Child("request"))
	errs = append(errs, driverName(r.Driver, at.Child("driver"))...)
	errs = append(errs, poolName(r.Pool, at.Child("pool"))...)
	errs = append(errs, label(r.Device, at.Child("device"))...)
	errs = append(errs, bindingConditions(r.BindingConditions, r.BindingFailureConditions, at)...)
	if r.ShareID != nil {
		errs = append(errs, shareID(string(*r.ShareID), at.Child("shareID"))...)
	}
	return errs
}

// deviceID is what a device of the status is known by, under the names that errors show.
type deviceID struct {
	Driver, Pool, Device string
	ShareID              string
}

func idOf(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
	if d.ShareID != nil {
		id.ShareID = *d.ShareID
	}
	return id
}

// allocated are the devices that a claim has got.
func allocated(a *resourcev1.AllocationResult) map[deviceID]bool {
	out := map[deviceID]bool{}
	if a == nil {
		return out
	}
	for _, r := range a.Devices.Results {
		id := deviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
		if r.ShareID != nil {
			id.ShareID = string(*r.ShareID)
		}
		out[id] = true
	}
	return out
}

// DropDeallocated forgets what drivers told about devices that the claim had and has no more.
func DropDeallocated(new, old *resourcev1.ResourceClaim) {
	has, had := allocated(new.Status.Allocation), allocated(old.Status.Allocation)
	new.Status.Devices = slices.DeleteFunc(new.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return had[idOf(&d)] && !has[idOf(&d)]
	})
	if len(new.Status.Devices) == 0 {
		new.Status.Devices = nil
	}
}

func validateDeviceStatus(d *resourcev1.AllocatedDeviceStatus, at *field.Path,
	devices map[deviceID]bool) field.ErrorList {
	errs := driverName(d.Driver, at.Child("driver"))
	errs = append(errs, poolName(d.Pool, at.Child("pool"))...)
	errs = append(errs, label(d.Device, at.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, shareID(*d.ShareID, at.Child("shareID"))...)
	}
	if !devices[idOf(d)] {
		errs = append(errs, field.Invalid(at, idOf(d), "must be an allocated device in the claim"))
	}
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(at.Child("conditions"), n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metavalidation.ValidateConditions(d.Conditions, at.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, object(*d.Data, at.Child("data"), resourcev1.AllocatedDeviceStatusDataMaxLength)...)
	}
	return append(errs, validateNetwork(d.NetworkData, at.Child("networkData"))...)
}

func validateNetwork(n *resourcev1.NetworkDeviceData, at *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(at.Child("interfaceName"), "",
			resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(at.Child("hardwareAddress"), "",
			resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, distinct(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, at.Child("ips"), same[string],
		func(address string, at *field.Path) field.ErrorList {
			return validation.IsValidInterfaceAddress(at, address)
		})...)
}

// ClaimState sums up what a claim has come to.
func ClaimState(c *resourcev1.ResourceClaim) string {
	state := ""
	add := func(part string) {
		if state != "" {
			state += ","
		}
		state += part
	}
	if c.DeletionTimestamp != (*metav1.Time)(nil) {
		add("deleted")
	}
	if c.Status.Allocation == nil {
		if c.DeletionTimestamp == nil {
			add("pending")
		}
		return state
	}
	add("allocated")
	if len(c.Status.ReservedFor) > 0 {
		add("reserved")
	}
	return state
}
