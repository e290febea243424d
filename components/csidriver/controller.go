package csidriver

import (
	"context"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// controller implements the controller service for volumes of this node.
type controller struct {
	csi.UnimplementedControllerServer
	*server
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (*controller) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES, csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return answer, nil
}

// CreateVolume implements csi.ControllerServer. The ID follows from the name, so that a second call makes no second
// volume.
func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume name missing in request")
	}
	if err := checkCapabilities(r.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	size, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if !c.reachable(r.GetAccessibilityRequirements()) {
		return nil, status.Errorf(codes.ResourceExhausted, "accessibility requirements: volumes are on node %s only",
			c.config.NodeID)
	}
	source := r.GetVolumeContentSource()
	wanted := &volume{
		ID: idOf("vol", r.GetName()), Name: r.GetName(), Capacity: size,
		Block: r.GetVolumeCapabilities()[0].GetBlock() != nil, Context: r.GetParameters(),
		SourceVolume: source.GetVolume().GetVolumeId(), SourceSnapshot: source.GetSnapshot().GetSnapshotId(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	existing, err := c.volumes.get(wanted.ID)
	switch {
	case err != nil:
		return nil, internal(err)
	case existing == nil:
		if err := c.makeVolume(wanted, source); err != nil {
			return nil, err
		}
	case !existing.satisfies(wanted, r.GetCapacityRange()):
		return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with other properties", r.GetName())
	default:
		wanted = existing
	}
	answer := c.describe(wanted)
	answer.ContentSource = source
	return &csi.CreateVolumeResponse{Volume: answer}, nil
}

// satisfies tells whether a volume is what another request for its name asks for.
func (v *volume) satisfies(wanted *volume, r *csi.CapacityRange) bool {
	return v.Block == wanted.Block && v.SourceVolume == wanted.SourceVolume && v.SourceSnapshot == wanted.SourceSnapshot &&
		v.Capacity >= r.GetRequiredBytes() && (r.GetLimitBytes() == 0 || v.Capacity <= r.GetLimitBytes())
}

// reachable tells whether requirements, nil for none, admit this node.
func (c *controller) reachable(r *csi.TopologyRequirement) bool {
	if len(r.GetRequisite()) == 0 {
		return true
	}
	return slices.ContainsFunc(r.GetRequisite(), func(t *csi.Topology) bool {
		return t.GetSegments()[c.config.topologyKey()] == c.config.NodeID
	})
}

// makeVolume makes a new volume, empty or with the contents of its source.
func (c *controller) makeVolume(v *volume, source *csi.VolumeContentSource) error {
	from, err := c.contentsOf(v, source)
	if err != nil {
		return err
	}
	left, err := c.free()
	if err != nil {
		return err
	}
	if v.Capacity > left {
		return status.Errorf(codes.OutOfRange, "%d bytes are asked for, and %d of %s are left", v.Capacity, left,
			c.config.Capacity.String())
	}
	return internal(c.volumes.create(v.ID, v, func(contents string) error { return fill(contents, from, v) }))
}

// fill makes the contents of a volume: a copy of from, or empty without.
func fill(contents, from string, v *volume) error {
	var err error
	switch {
	case from != "":
		err = copyTree(from, contents)
	case !v.Block:
		if err = os.Mkdir(contents, 0o755); err == nil {
			err = os.Chmod(contents, 0o777) // any user of a pod may write, whatever the driver's umask
		}
	}
	if err == nil && v.Block {
		err = resizeFile(contents, v.Capacity)
	}
	return err
}

// resizeFile makes a file, which may not be there yet, at least as large as size.
func resizeFile(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	return file.Truncate(size)
}

// contentsOf is where the contents come from that a new volume is to have; "" for none.
func (c *controller) contentsOf(v *volume, source *csi.VolumeContentSource) (string, error) {
	var block bool
	var capacity int64
	var path string
	switch {
	case source == nil:
		return "", nil
	case source.GetSnapshot() != nil:
		from, err := c.snapshots.get(v.SourceSnapshot)
		if err != nil {
			return "", internal(err)
		}
		if from == nil {
			return "", status.Errorf(codes.NotFound, "snapshot %s not found", v.SourceSnapshot)
		}
		block, capacity, path = from.Block, from.Capacity, c.snapshots.contents(from.ID)
	case source.GetVolume() != nil:
		from, err := c.volumes.get(v.SourceVolume)
		if err != nil {
			return "", internal(err)
		}
		if from == nil {
			return "", status.Errorf(codes.NotFound, "volume %s not found", v.SourceVolume)
		}
		block, capacity, path = from.Block, from.Capacity, c.volumes.contents(from.ID)
	default:
		return "", status.Error(codes.InvalidArgument, "volume content source: use a snapshot or a volume")
	}
	switch {
	case block != v.Block:
		return "", status.Error(codes.InvalidArgument, "volume content source: mount and block can't be made of each other")
	case capacity > v.Capacity:
		return "", status.Errorf(codes.OutOfRange, "volume content source has %d bytes, more than the %d asked for",
			capacity, v.Capacity)
	}
	return path, nil
}

// describe tells a client of a volume.
func (c *controller) describe(v *volume) *csi.Volume {
	return &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Capacity, VolumeContext: v.Context,
		AccessibleTopology: []*csi.Topology{c.topology()}}
}

// DeleteVolume implements csi.ControllerServer.
func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	switch {
	case status.Code(err) == codes.NotFound:
		return &csi.DeleteVolumeResponse{}, nil
	case err != nil:
		return nil, err
	case v.inUse():
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use", v.ID)
	}
	if err := c.volumes.remove(v.ID); err != nil {
		return nil, internal(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (c *controller) ValidateVolumeCapabilities(_ context.Context,
	r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume capabilities missing in request")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := checkCapabilities(r.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	if (r.GetVolumeCapabilities()[0].GetBlock() != nil) != v.Block {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: "the volume has another access type"}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}

// nodes are those that the controller published a volume to.
func (c *controller) nodes(v *volume) []string {
	if v.Attached {
		return []string{c.config.NodeID}
	}
	return nil
}

// ListVolumes implements csi.ControllerServer.
func (c *controller) ListVolumes(_ context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.volumes.list()
	if err != nil {
		return nil, internal(err)
	}
	all = slices.DeleteFunc(all, func(v *volume) bool { return v.Ephemeral })
	some, next, err := page(all, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	answer := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range some {
		answer.Entries = append(answer.Entries, &csi.ListVolumesResponse_Entry{Volume: c.describe(v),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: c.nodes(v)}})
	}
	return answer, nil
}

// ControllerGetVolume implements csi.ControllerServer.
func (c *controller) ControllerGetVolume(_ context.Context,
	r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{Volume: c.describe(v),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: c.nodes(v)}}, nil
}

// GetCapacity implements csi.ControllerServer.
func (c *controller) GetCapacity(_ context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place := r.GetAccessibleTopology(); place != nil &&
		place.GetSegments()[c.config.topologyKey()] != c.config.NodeID {
		return &csi.GetCapacityResponse{}, nil
	}
	left, err := c.free()
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{AvailableCapacity: left}, nil
}

// ControllerExpandVolume implements csi.ControllerServer. The node has its part to do: the loop device of a block
// volume is told there.
func (c *controller) ControllerExpandVolume(_ context.Context,
	r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if r.GetVolumeId() != "" && r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "capacity range missing in request")
	}
	size, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if size > v.Capacity {
		if err := c.expand(v, size); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Capacity, NodeExpansionRequired: true}, nil
}

func (c *controller) expand(v *volume, size int64) error {
	left, err := c.free()
	if err != nil {
		return err
	}
	if size-v.Capacity > left {
		return status.Errorf(codes.OutOfRange, "volume %s can't grow by %d bytes: %d are left", v.ID, size-v.Capacity, left)
	}
	if v.Block {
		if err := resizeFile(c.volumes.contents(v.ID), size); err != nil {
			return internal(err)
		}
	}
	v.Capacity = size
	return internal(c.volumes.put(v.ID, v))
}
