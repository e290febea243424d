package devicedriver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	pluginPrefix = "device"
	// containerDir is where containers find the files of their devices, a directory per device.
	containerDir = "/etc/quintet/devices"
	// deviceDir is where containers find the devices.
	deviceDir = "/dev/quintet"
)

// plugin is the device plug-in.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	config    *Config
	inventory *inventory
}

func (p *plugin) devices() ([]device, <-chan struct{}) {
	return p.inventory.list(pluginPrefix, p.config.Devices, p.config.NUMANodes)
}

// filesOf is the directory of the files that containers with a device see.
func (p *plugin) filesOf(id string) string { return filepath.Join(p.config.Root, "devices", id) }

// prepare makes what containers get of each device: its files, and the CDI device of its name.
func (p *plugin) prepare() error {
	devices, _ := p.devices()
	spec := newSpec(p.config.ResourceName)
	for _, d := range devices {
		if err := os.MkdirAll(p.filesOf(d.name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(p.filesOf(d.name), "name"), []byte(d.name+"\n"), 0o644); err != nil {
			return err
		}
		spec.add(d.name, edits{Env: []string{"QUINTET_CDI_" + variable(d.name) + "=" + p.config.ResourceName}})
	}
	return spec.write(p.config.CDIDir, fileOf(p.config.ResourceName))
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{
		PreStartRequired: p.config.PreStart, GetPreferredAllocationAvailable: true,
	}, nil
}

// ListAndWatch implements pluginapi.DevicePluginServer.
func (p *plugin) ListAndWatch(_ *pluginapi.Empty,
	stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for {
		devices, changed := p.devices()
		response := &pluginapi.ListAndWatchResponse{}
		for _, d := range devices {
			one := &pluginapi.Device{ID: d.name, Health: pluginapi.Healthy}
			if d.reason != "" {
				one.Health = pluginapi.Unhealthy
			}
			if d.numa >= 0 {
				one.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.numa)}}}
			}
			response.Devices = append(response.Devices, one)
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation implements pluginapi.DevicePluginServer: devices of one NUMA node, if that has enough.
func (p *plugin) GetPreferredAllocation(_ context.Context,
	request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	devices, _ := p.devices()
	response := &pluginapi.PreferredAllocationResponse{}
	for _, r := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{
			DeviceIDs: prefer(devices, r.AvailableDeviceIDs, r.MustIncludeDeviceIDs, int(r.AllocationSize)),
		})
	}
	return response, nil
}

// prefer chooses size of the available devices, with those that must be among them: of as few NUMA nodes as possible,
// then the first ones. all is in order.
func prefer(all []device, available, must []string, size int) []string {
	free := map[int]int{}
	var candidates []device
	for _, d := range all {
		if slices.Contains(available, d.name) && !slices.Contains(must, d.name) {
			candidates = append(candidates, d)
			free[d.numa]++
		}
	}
	chosen, near := slices.Clone(must), map[int]bool{}
	for _, d := range all {
		if slices.Contains(must, d.name) {
			near[d.numa] = true
		}
	}
	missing := max(size-len(chosen), 0)
	rank := func(d device) int { // of its NUMA node; the smallest that is enough comes first
		switch n := free[d.numa]; {
		case near[d.numa]:
			return 0
		case n >= missing:
			return n
		default:
			return len(all) + len(all) - n
		}
	}
	slices.SortStableFunc(candidates, func(a, b device) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.numa, b.numa))
	})
	for _, d := range candidates[:min(missing, len(candidates))] {
		chosen = append(chosen, d.name)
	}
	return chosen
}

// Allocate implements pluginapi.DevicePluginServer.
func (p *plugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	devices, _ := p.devices()
	response := &pluginapi.AllocateResponse{}
	for _, r := range request.ContainerRequests {
		one := &pluginapi.ContainerAllocateResponse{
			Envs:        map[string]string{"QUINTET_DEVICES": strings.Join(r.DevicesIds, ",")},
			Annotations: map[string]string{p.config.ResourceName: strings.Join(r.DevicesIds, ",")},
		}
		for _, id := range r.DevicesIds {
			i := slices.IndexFunc(devices, func(d device) bool { return d.name == id })
			switch {
			case i < 0:
				return nil, status.Errorf(codes.NotFound, "device %s not found", id)
			case devices[i].reason != "":
				return nil, status.Errorf(codes.FailedPrecondition, "device %s is unhealthy: %s", id, devices[i].reason)
			}
			one.Mounts = append(one.Mounts, &pluginapi.Mount{
				HostPath: p.filesOf(id), ContainerPath: filepath.Join(containerDir, id), ReadOnly: true})
			one.Devices = append(one.Devices, &pluginapi.DeviceSpec{
				HostPath: p.config.HostDevice, ContainerPath: filepath.Join(deviceDir, id), Permissions: "rw"})
			one.CdiDevices = append(one.CdiDevices, &pluginapi.CDIDevice{Name: qualified(p.config.ResourceName, id)})
		}
		response.ContainerResponses = append(response.ContainerResponses, one)
	}
	return response, nil
}

// PreStartContainer implements pluginapi.DevicePluginServer.
func (p *plugin) PreStartContainer(context.Context,
	*pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

// registration tells the kubelet of the device plug-in (k8s.io/kubelet/pkg/apis/pluginregistration): it looks for
// plug-ins itself, also after it was restarted.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	resource, endpoint string
}

// GetInfo implements registerapi.RegistrationServer.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DevicePlugin, Name: r.resource, Endpoint: r.endpoint,
		SupportedVersions: []string{pluginapi.Version}}, nil
}

// NotifyRegistrationStatus implements registerapi.RegistrationServer. The kubelet tries again what failed.
func (r *registration) NotifyRegistrationStatus(ctx context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		klog.FromContext(ctx).Info("Registered with the kubelet", "resource", r.resource)
	} else {
		err := fmt.Errorf("the kubelet refused: %s", s.GetError())
		klog.FromContext(ctx).Error(err, "Failed to register with the kubelet", "resource", r.resource)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
