package scheduler

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"

	"quintet.dev/quintet/components/scheduler/queue"
)

// watchDevices watches the objects of dynamic resource allocation. Where DeviceTaintRules are on, slices have their
// taints, too.
func (s *Scheduler) watchDevices(ctx context.Context, f *feeds, served sets.Set[string]) error {
	if !served.HasAll("resourceclaims", "resourceslices", "deviceclasses") {
		return nil
	}
	api := f.Resource().V1()
	storageFeed(s, f, api.ResourceClaims().Informer(), queue.ResourceClaimAdded, queue.ResourceClaimUpdated, 0,
		func(c *resourcev1.ResourceClaim) { s.snapshot.SetResourceClaim(c) },
		func(c *resourcev1.ResourceClaim) { s.snapshot.RemoveResourceClaim(c) })
	storageFeed(s, f, api.DeviceClasses().Informer(), queue.DeviceClassAdded, queue.DeviceClassUpdated, 0,
		func(c *resourcev1.DeviceClass) { s.snapshot.SetDeviceClass(c) },
		func(c *resourcev1.DeviceClass) { s.snapshot.RemoveDeviceClass(c.Name) })
	rules, err := s.servesTaintRules(ctx)
	if err != nil {
		return err
	}
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   rules,
		EnableConsumableCapacity: s.config.gates.on(gateConsumableCapacity),
		SliceInformer:            api.ResourceSlices(), ClassInformer: api.DeviceClasses(),
		TaintInformer: f.Resource().V1beta2().DeviceTaintRules(), KubeClient: s.client,
	})
	if err != nil {
		return err
	}
	f.slices = slices
	storageFeed(s, f, slices, queue.ResourceSliceAdded, queue.ResourceSliceUpdated, 0,
		func(c *resourcev1.ResourceSlice) { s.snapshot.SetResourceSlice(c) },
		func(c *resourcev1.ResourceSlice) { s.snapshot.RemoveResourceSlice(c.Name) })
	f.synced = append(f.synced, slices.HasSyncedChecker())
	return nil
}

// servesTaintRules tells whether there can be DeviceTaintRules, and they count.
func (s *Scheduler) servesTaintRules(ctx context.Context) (bool, error) {
	if !s.config.gates.on(gateTaintRules) {
		return false, nil
	}
	served, err := s.served(ctx, "resource.k8s.io/v1beta2")
	return served.Has("devicetaintrules"), err
}
