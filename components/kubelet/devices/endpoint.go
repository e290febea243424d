package devices

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

// preStartTimeout bounds a call of PreStartContainer.
const preStartTimeout = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second

// endpoint is a plug-in that serves a resource.
type endpoint struct {
	resource string
	socket   string
	options  *pluginapi.DevicePluginOptions
	conn     *grpc.ClientConn
	client   pluginapi.DevicePluginClient
	stop     context.CancelFunc
}

func dial(resource, socket string, options *pluginapi.DevicePluginOptions) (*endpoint, error) {
	conn, err := pluginwatcher.Dial(socket)
	if err != nil {
		return nil, fmt.Errorf("failed to dial device plugin with socketPath %s: %w", socket, err)
	}
	return &endpoint{
		resource: resource, socket: socket, options: options, conn: conn, client: pluginapi.NewDevicePluginClient(conn),
	}, nil
}

// listAndWatch hands each list of devices to update, until the plug-in or ctx ends.
func (e *endpoint) listAndWatch(ctx context.Context, update func([]*pluginapi.Device)) error {
	stream, err := e.client.ListAndWatch(ctx, &pluginapi.Empty{})
	for err == nil {
		var list *pluginapi.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			update(list.Devices)
		}
	}
	return err
}

// preferred returns the devices to allocate: the plug-in's choice if it makes one.
func (e *endpoint) preferred(ctx context.Context, c *choice) ([]string, error) {
	if !e.options.GetGetPreferredAllocationAvailable() || len(c.must) == c.required {
		return c.pick(nil), nil
	}
	response, err := e.client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs:   append(append([]string{}, c.available...), c.must...),
			MustIncludeDeviceIDs: c.must, AllocationSize: int32(c.required),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(response.ContainerResponses) == 0 {
		return c.pick(nil), nil
	}
	return c.pick(response.ContainerResponses[0].DeviceIDs), nil
}

func (e *endpoint) allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	response, err := e.client.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	if len(response.ContainerResponses) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", response)
	}
	return response.ContainerResponses[0], nil
}

func (e *endpoint) preStart(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, preStartTimeout)
	defer cancel()
	if _, err := e.client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

// add takes a plug-in in, in place of an earlier one of the resource, and follows its devices.
func (m *Manager) add(e *endpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil {
		_ = e.conn.Close()
		return fmt.Errorf("the kubelet does not take device plugins now")
	}
	ctx, stop := context.WithCancel(m.ctx)
	e.stop = stop
	r := m.resources[e.resource]
	if r == nil {
		r = &pluginResource{devices: map[string]*pluginapi.Device{}}
		m.resources[e.resource] = r
	}
	if r.endpoint != nil {
		r.endpoint.stop()
	}
	r.endpoint, r.stopped = e, time.Time{}
	delete(m.removed, e.resource)
	m.wait.Go(func() {
		defer e.conn.Close()
		defer stop()
		err := e.listAndWatch(ctx, func(list []*pluginapi.Device) { m.update(e, list) })
		klog.FromContext(ctx).Info("Device plug-in ended", "resource", e.resource, "err", err)
		if m.stopped(e) {
			m.CapacityChanged()
		}
	})
	return nil
}

// update takes in the devices that a plug-in has.
func (m *Manager) update(e *endpoint, list []*pluginapi.Device) {
	now := map[string]*pluginapi.Device{}
	for _, device := range list {
		now[device.ID] = device
	}
	if m.replace(e, func(r *pluginResource) { r.devices = now }) {
		m.CapacityChanged()
	}
}

// stopped notes that a plug-in ended: none of its devices is healthy. It reports whether it was the resource's last.
func (m *Manager) stopped(e *endpoint) bool {
	return m.replace(e, func(r *pluginResource) {
		r.endpoint, r.stopped = nil, m.Clock.Now()
		sick := map[string]*pluginapi.Device{}
		for id, device := range r.devices {
			sick[id] = &pluginapi.Device{ID: id, Health: pluginapi.Unhealthy, Topology: device.Topology}
		}
		r.devices = sick
	})
}

// replace changes the devices of a resource, if e serves it, and tells pods whose devices have another health then.
func (m *Manager) replace(e *endpoint, change func(*pluginResource)) bool {
	m.mu.Lock()
	r := m.resources[e.resource]
	if r == nil || r.endpoint != e {
		m.mu.Unlock()
		return false
	}
	before := r.healthy()
	change(r)
	after := r.healthy()
	m.save()
	var affected []types.UID
	for uid, containers := range m.pods {
		for _, byResource := range containers {
			if a := byResource[e.resource]; a != nil && changed(a.IDs, before, after) {
				affected = append(affected, uid)
				break
			}
		}
	}
	m.mu.Unlock()
	for _, uid := range affected {
		m.HealthChanged(uid)
	}
	return true
}

func changed(ids []string, before, after idSet) bool {
	for _, id := range ids {
		if before[id] != after[id] {
			return true
		}
	}
	return false
}
