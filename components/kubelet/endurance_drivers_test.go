package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

const (
	enduranceCSI = "disk.example.com"
	enduranceDRA = "gpu.example.com"
)

// enduring is a driver of volumes and of devices: it outlives kubelets, knows what is staged, published and prepared,
// and notes the calls that break the rules: a volume is published where it is staged, and unstaged when it is published
// nowhere. Calls that are repeated are fine.
type enduring struct {
	csispec.UnimplementedNodeServer
	drapb.UnimplementedDRAPluginServer

	mu        sync.Mutex
	staged    map[string]string // path by handle
	published map[string]string // handle by path
	prepared  map[string]bool   // by UID of the claim
	done      map[string]int    // calls, by name
	broken    []error
}

// serve serves the driver in memory, where time may pass, and returns how it is reached.
func (d *enduring) serve() (listener *bufconn.Listener, stop func()) {
	listener = bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	csispec.RegisterNodeServer(server, d)
	drapb.RegisterDRAPluginServer(server, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return listener, func() {
		server.Stop()
		<-done
	}
}

func dialer(listener *bufconn.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	})
}

// call notes a call and does it.
func (d *enduring) call(name string, act func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[name]++
	err := act()
	if err != nil {
		d.broken = append(d.broken, fmt.Errorf("%s: %w", name, err))
	}
	return err
}

func (d *enduring) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: "n1"}, nil
}

func (d *enduring) NodeGetCapabilities(context.Context,
	*csispec.NodeGetCapabilitiesRequest) (*csispec.NodeGetCapabilitiesResponse, error) {
	return &csispec.NodeGetCapabilitiesResponse{Capabilities: []*csispec.NodeServiceCapability{{
		Type: &csispec.NodeServiceCapability_Rpc{Rpc: &csispec.NodeServiceCapability_RPC{
			Type: csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}}}}, nil
}

func (d *enduring) NodeStageVolume(_ context.Context,
	r *csispec.NodeStageVolumeRequest) (*csispec.NodeStageVolumeResponse, error) {
	return &csispec.NodeStageVolumeResponse{}, d.call("stage", func() error {
		if path, ok := d.staged[r.VolumeId]; ok && path != r.StagingTargetPath {
			return fmt.Errorf("%s is staged on %s and %s", r.VolumeId, path, r.StagingTargetPath)
		}
		d.staged[r.VolumeId] = r.StagingTargetPath
		_, err := os.Stat(r.StagingTargetPath)
		return err
	})
}

func (d *enduring) NodeUnstageVolume(_ context.Context,
	r *csispec.NodeUnstageVolumeRequest) (*csispec.NodeUnstageVolumeResponse, error) {
	return &csispec.NodeUnstageVolumeResponse{}, d.call("unstage", func() error {
		for path, handle := range d.published {
			if handle == r.VolumeId {
				return fmt.Errorf("%s is published on %s", handle, path)
			}
		}
		delete(d.staged, r.VolumeId)
		return nil
	})
}

func (d *enduring) NodePublishVolume(_ context.Context,
	r *csispec.NodePublishVolumeRequest) (*csispec.NodePublishVolumeResponse, error) {
	return &csispec.NodePublishVolumeResponse{}, d.call("publish", func() error {
		if d.staged[r.VolumeId] != r.StagingTargetPath {
			return fmt.Errorf("%s is staged on %q, not %q", r.VolumeId, d.staged[r.VolumeId], r.StagingTargetPath)
		}
		d.published[r.TargetPath] = r.VolumeId
		if err := os.Mkdir(r.TargetPath, 0o700); !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	})
}

func (d *enduring) NodeUnpublishVolume(_ context.Context,
	r *csispec.NodeUnpublishVolumeRequest) (*csispec.NodeUnpublishVolumeResponse, error) {
	return &csispec.NodeUnpublishVolumeResponse{}, d.call("unpublish", func() error {
		delete(d.published, r.TargetPath)
		return os.RemoveAll(r.TargetPath)
	})
}

func (d *enduring) NodePrepareResources(_ context.Context,
	r *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	answer := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	return answer, d.call("prepare", func() error {
		for _, claim := range r.Claims {
			d.prepared[claim.Uid] = true
			answer.Claims[claim.Uid] = &drapb.NodePrepareResourceResponse{Devices: []*drapb.Device{
				{RequestNames: []string{"a"}, PoolName: "p", DeviceName: "d0", CdiDeviceIds: []string{"example.com/gpu=0"}}}}
		}
		return nil
	})
}

func (d *enduring) NodeUnprepareResources(_ context.Context,
	r *drapb.NodeUnprepareResourcesRequest) (*drapb.NodeUnprepareResourcesResponse, error) {
	answer := &drapb.NodeUnprepareResourcesResponse{Claims: map[string]*drapb.NodeUnprepareResourceResponse{}}
	return answer, d.call("unprepare", func() error {
		for _, claim := range r.Claims {
			delete(d.prepared, claim.Uid)
			answer.Claims[claim.Uid] = &drapb.NodeUnprepareResourceResponse{}
		}
		return nil
	})
}
