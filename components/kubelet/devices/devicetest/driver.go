package devicetest

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	drapbv1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is a DRA driver. Its fields are set before Start. It is safe for concurrent use.
type Driver struct {
	drapb.UnimplementedDRAPluginServer
	registerapi.UnimplementedRegistrationServer
	Name   string
	Socket string // file
	Beta   bool   // serves v1beta1 instead of v1
	// Devices are what each claim gets.
	Devices func(claim *drapb.Claim) []*drapb.Device

	mu       sync.Mutex
	fail     string
	prepared map[string]bool // by UID of the claim
	calls    []string
	server   *grpc.Server
}

// Start serves the driver until Stop.
func (d *Driver) Start() error {
	_ = os.Remove(d.Socket)
	listener, err := net.Listen("unix", d.Socket)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.prepared == nil {
		d.prepared = map[string]bool{}
	}
	d.server = grpc.NewServer()
	if d.Beta {
		drapbv1beta1.RegisterDRAPluginServer(d.server, drapbv1beta1.V1ServerWrapper{DRAPluginServer: d})
	} else {
		drapb.RegisterDRAPluginServer(d.server, d)
	}
	registerapi.RegisterRegistrationServer(d.server, d)
	go func(server *grpc.Server) { _ = server.Serve(listener) }(d.server)
	return nil
}

// Stop ends the driver. What is prepared stays so.
func (d *Driver) Stop() {
	d.mu.Lock()
	server := d.server
	d.mu.Unlock()
	server.Stop()
}

// Fail makes all calls fail for each claim with a message; "" ends that.
func (d *Driver) Fail(message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = message
}

// Prepared tells whether a claim is prepared.
func (d *Driver) Prepared(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.prepared[uid]
}

// Calls returns what was called so far, as "prepare UID" and "unprepare UID".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// NodePrepareResources implements drapb.DRAPluginServer.
func (d *Driver) NodePrepareResources(_ context.Context,
	request *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	response := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, claim := range request.Claims {
		d.calls = append(d.calls, "prepare "+claim.Uid)
		answer := &drapb.NodePrepareResourceResponse{Error: d.fail}
		if d.fail == "" {
			d.prepared[claim.Uid] = true
			answer.Devices = d.Devices(claim)
		}
		response.Claims[claim.Uid] = answer
	}
	return response, nil
}

// NodeUnprepareResources implements drapb.DRAPluginServer.
func (d *Driver) NodeUnprepareResources(_ context.Context,
	request *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	response := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	for _, claim := range request.Claims {
		d.calls = append(d.calls, "unprepare "+claim.Uid)
		if d.fail == "" {
			delete(d.prepared, claim.Uid)
		}
		response.Claims[claim.Uid] = &drapb.NodeUnprepareResourceResponse{Error: d.fail}
	}
	return response, nil
}

// GetInfo implements the registration that the plug-in watcher asks for.
func (d *Driver) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	version := drapb.DRAPluginService
	if d.Beta {
		version = drapbv1beta1.DRAPluginService
	}
	return &registerapi.PluginInfo{
		Type: registerapi.DRAPlugin, Name: d.Name, Endpoint: d.Socket, SupportedVersions: []string{version},
	}, nil
}

// NotifyRegistrationStatus implements the registration that the plug-in watcher asks for.
func (d *Driver) NotifyRegistrationStatus(_ context.Context,
	status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		return nil, errors.New(status.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
