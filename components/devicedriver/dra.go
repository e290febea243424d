package devicedriver

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	drahealthapi "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/calllog"
)

const claimPrefix = "accelerator"

const (
	// healthTimeout is how long the kubelet may believe what it was told of a device, in seconds.
	healthTimeout = 60
	// healthPeriod is how often it is told.
	healthPeriod = 20 * time.Second
)

// draDriver is the kubelet's DRA plug-in: it has claims prepared, and publishes the devices of the node.
type draDriver struct {
	drahealthapi.UnimplementedDRAResourceHealthServer
	config    *Config
	inventory *inventory
	claims    *claims
}

var (
	_ kubeletplugin.DRAPlugin              = (*draDriver)(nil)
	_ drahealthapi.DRAResourceHealthServer = (*draDriver)(nil)
)

func (d *draDriver) devices() ([]device, <-chan struct{}) {
	return d.inventory.list(claimPrefix, d.config.ClaimDevices, d.config.NUMANodes)
}

// run serves the kubelet and publishes the devices until ctx ends. What is prepared stays so, and the ResourceSlice
// stays: the kubelet removes it if the driver does not come back.
func (d *draDriver) run(ctx context.Context, client kubernetes.Interface, calls *calllog.Log) error {
	for _, dir := range []string{d.config.registrationDir(), d.config.pluginDir(d.config.DriverName)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("--kubelet-dir: %w", err)
		}
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.KubeClient(client),
		kubeletplugin.DriverName(d.config.DriverName), kubeletplugin.NodeName(d.config.NodeName),
		kubeletplugin.RegistrarDirectoryPath(d.config.registrationDir()),
		kubeletplugin.PluginDataDirectoryPath(d.config.pluginDir(d.config.DriverName)),
		kubeletplugin.GRPCInterceptor(calls.Unary), kubeletplugin.GRPCStreamInterceptor(calls.Stream),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	for {
		devices, changed := d.devices()
		if err := helper.PublishResources(ctx, d.resources(devices)); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// resources is what is published: a pool by the name of the node. An unhealthy device is tainted, so that no further
// claim gets it.
func (d *draDriver) resources(devices []device) resourceslice.DriverResources {
	var list []resourceapi.Device
	for i, one := range devices {
		model := "large"
		if i >= (len(devices)+1)/2 {
			model = "small"
		}
		entry := resourceapi.Device{
			Name: one.name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {StringValue: &model}, "index": {IntValue: ptr.To(int64(i))},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: memoryOf(model)}},
		}
		if one.numa >= 0 {
			entry.Attributes["numaNode"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(one.numa))}
		}
		if one.reason != "" {
			entry.Taints = []resourceapi.DeviceTaint{{
				Key: UnhealthyAnnotation, Effect: resourceapi.DeviceTaintEffectNoSchedule,
			}}
		}
		list = append(list, entry)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		d.config.NodeName: {Slices: []resourceslice.Slice{{Devices: list}}},
	}}
}

// memoryOf is the capacity of the devices of a model.
func memoryOf(model string) resource.Quantity {
	if model == "large" {
		return resource.MustParse("16Gi")
	}
	return resource.MustParse("4Gi")
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *draDriver) PrepareResourceClaims(_ context.Context,
	claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.claims.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *draDriver) UnprepareResourceClaims(_ context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = d.claims.unprepare(claim.UID)
	}
	return results, nil
}

// HandleError implements kubeletplugin.DRAPlugin. What is published is tried again; a server that ended is noticed by
// the kubelet, which asks again.
func (d *draDriver) HandleError(ctx context.Context, err error, message string) {
	klog.FromContext(ctx).Error(err, message)
}

// NodeWatchResources implements drahealthapi.DRAResourceHealthServer: the health of all devices, as it changes and
// before what was told becomes too old to be believed.
func (d *draDriver) NodeWatchResources(_ *drahealthapi.NodeWatchResourcesRequest,
	stream grpc.ServerStreamingServer[drahealthapi.NodeWatchResourcesResponse]) error {
	ticker := d.config.Clock.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		devices, changed := d.devices()
		now := d.config.Clock.Now().Unix()
		response := &drahealthapi.NodeWatchResourcesResponse{}
		for _, one := range devices {
			health := drahealthapi.HealthStatus_HEALTHY
			if one.reason != "" {
				health = drahealthapi.HealthStatus_UNHEALTHY
			}
			response.Devices = append(response.Devices, &drahealthapi.DeviceHealth{
				Device: &drahealthapi.DeviceIdentifier{PoolName: d.config.NodeName, DeviceName: one.name},
				Health: health, Message: one.reason, LastUpdatedTime: now, HealthCheckTimeoutSeconds: healthTimeout,
			})
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ticker.C():
		case <-stream.Context().Done():
			return nil
		}
	}
}
