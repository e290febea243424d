// Package devicetest has drivers of devices for tests: they speak the real APIs over real sockets, and their devices
// are environment variables, files and device nodes that a test names.
package devicetest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Plugin is a device plug-in (v1beta1). Its fields are set before Start. It is safe for concurrent use.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	registerapi.UnimplementedRegistrationServer
	Resource string
	Socket   string // file
	Options  *pluginapi.DevicePluginOptions
	// Answer is what a container gets for devices.
	Answer func(ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// Prefer chooses among available devices; needed if the options say that the plug-in does.
	Prefer func(request *pluginapi.ContainerPreferredAllocationRequest) []string
	// PreStartErr is the answer to PreStartContainer.
	PreStartErr error

	mu      sync.Mutex
	devices []*pluginapi.Device
	changed chan struct{} // closed as the devices change
	started [][]string    // devices of each PreStartContainer
	server  *grpc.Server
}

// Start serves the plug-in until Stop. The socket's directory exists.
func (p *Plugin) Start(devices ...*pluginapi.Device) error {
	_ = os.Remove(p.Socket)
	listener, err := net.Listen("unix", p.Socket)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices, p.changed, p.server = devices, make(chan struct{}), grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(p.server, p)
	registerapi.RegisterRegistrationServer(p.server, p)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(p.server)
	return nil
}

// Stop ends the plug-in; calls under way fail.
func (p *Plugin) Stop() {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	server.Stop()
}

// Register tells the kubelet, whose registration socket is given, that the plug-in is there.
func (p *Plugin) Register(ctx context.Context, kubelet string) error {
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: filepath.Base(p.Socket), ResourceName: p.Resource, Options: p.Options,
	})
	return err
}

// SetDevices makes the devices those given.
func (p *Plugin) SetDevices(devices ...*pluginapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

// Started returns the devices of each call of PreStartContainer.
func (p *Plugin) Started() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]string{}, p.started...)
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if p.Options == nil {
		return &pluginapi.DevicePluginOptions{}, nil
	}
	return p.Options, nil
}

// ListAndWatch implements pluginapi.DevicePluginServer.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse],
) error {
	for {
		p.mu.Lock()
		devices, changed := p.devices, p.changed
		p.mu.Unlock()
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation implements pluginapi.DevicePluginServer.
func (p *Plugin) GetPreferredAllocation(_ context.Context,
	request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, r := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: p.Prefer(r)})
	}
	return response, nil
}

// Allocate implements pluginapi.DevicePluginServer.
func (p *Plugin) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{}
	for _, r := range request.ContainerRequests {
		answer, err := p.Answer(r.DevicesIds)
		if err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

// PreStartContainer implements pluginapi.DevicePluginServer.
func (p *Plugin) PreStartContainer(_ context.Context,
	request *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = append(p.started, request.DevicesIds)
	return &pluginapi.PreStartContainerResponse{}, p.PreStartErr
}

// GetInfo implements the registration that the plug-in watcher asks for.
func (p *Plugin) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.DevicePlugin, Name: p.Resource, Endpoint: p.Socket,
		SupportedVersions: pluginapi.SupportedVersions[:],
	}, nil
}

// NotifyRegistrationStatus implements the registration that the plug-in watcher asks for.
func (p *Plugin) NotifyRegistrationStatus(_ context.Context,
	status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		return nil, errors.New(status.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// Devices are n devices that are healthy, called d0, d1 and so on, the first half on NUMA node 0.
func Devices(n int) []*pluginapi.Device {
	list := make([]*pluginapi.Device, n)
	for i := range list {
		node := int64(0)
		if i >= (n+1)/2 {
			node = 1
		}
		list[i] = &pluginapi.Device{ID: "d" + string(rune('0'+i)), Health: pluginapi.Healthy,
			Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}}
	}
	return list
}
