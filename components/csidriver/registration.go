package csidriver

import (
	"context"
	"path/filepath"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registration tells the kubelet of the driver (k8s.io/kubelet/pkg/apis/pluginregistration), as the sidecar
// node-driver-registrar does.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	name, endpoint string
}

// GetInfo implements registerapi.RegistrationServer.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: r.name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements registerapi.RegistrationServer. The kubelet tries again what failed.
func (r *registration) NotifyRegistrationStatus(ctx context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		klog.FromContext(ctx).Info("Registered with the kubelet", "driver", r.name)
	} else {
		klog.FromContext(ctx).Info("Failed to register with the kubelet", "driver", r.name, "err", s.GetError())
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// registrationServer serves the registration at a socket of the kubelet's directory; its path comes with it.
func (c *Config) registrationServer() (*grpc.Server, string) {
	endpoint := c.KubeletEndpoint
	if endpoint == "" {
		endpoint = c.Endpoint
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, &registration{name: c.DriverName, endpoint: endpoint})
	return server, filepath.Join(c.Registration, c.DriverName+"-reg.sock")
}
