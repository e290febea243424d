package csidriver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ephemeralSize is how large an inline volume is, in bytes.
func ephemeralSize(attributes map[string]string) (int64, error) {
	text := attributes[sizeKey]
	if text == "" {
		return defaultSize, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return 0, status.Errorf(codes.InvalidArgument, "volume attribute %s %q: use a quantity greater than 0", sizeKey, text)
	}
	return q.Value(), nil
}

// used tells whether the volume is staged or published on path.
func (v *volume) used(path string) bool {
	_, published := v.Published[path]
	return published || path == v.Staged
}

// NodeGetVolumeStats implements csi.NodeServer. The figures of a volume that is a directory are those of its files;
// nothing keeps them below its capacity.
func (n *node) NodeGetVolumeStats(_ context.Context,
	r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumeId() != "" && r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume path missing in request")
	}
	n.mu.Lock()
	v, err := n.find(r.GetVolumeId())
	n.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case !v.used(r.GetVolumePath()):
		return nil, status.Errorf(codes.NotFound, "volume %s is not at %s", v.ID, r.GetVolumePath())
	case v.Block:
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
			{Unit: csi.VolumeUsage_BYTES, Total: v.Capacity}}}, nil
	}
	bytes, inodes, err := usageOf(n.volumes.contents(v.ID))
	if err != nil {
		return nil, internal(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: v.Capacity, Used: bytes, Available: max(v.Capacity-bytes, 0)},
		{Unit: csi.VolumeUsage_INODES, Used: inodes},
	}}, nil
}

// NodeExpandVolume implements csi.NodeServer.
func (n *node) NodeExpandVolume(_ context.Context,
	r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if r.GetVolumeId() != "" && r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume path missing in request")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.find(r.GetVolumeId())
	switch {
	case err != nil:
		return nil, err
	case !v.used(r.GetVolumePath()):
		return nil, status.Errorf(codes.NotFound, "volume %s is not at %s", v.ID, r.GetVolumePath())
	case r.GetCapacityRange().GetRequiredBytes() > v.Capacity:
		return nil, status.Errorf(codes.OutOfRange, "volume %s has %d bytes: the controller expands it first", v.ID,
			v.Capacity)
	}
	if v.Block {
		if err := n.mounts.growLoop(n.volumes.contents(v.ID)); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Capacity}, nil
}
