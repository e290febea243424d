package csidriver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// node implements the node service.
type node struct {
	csi.UnimplementedNodeServer
	*server
}

// NodeGetInfo implements csi.NodeServer.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.config.NodeID, MaxVolumesPerNode: n.config.AttachLimit,
		AccessibleTopology: n.topology()}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (*node) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return answer, nil
}

// NodeStageVolume implements csi.NodeServer. The record is written before anything is mounted, so that what a kill
// leaves behind is known; mounts that a restart of the machine removed are made again.
func (n *node) NodeStageVolume(_ context.Context,
	r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if r.GetVolumeId() != "" && path == "" {
		return nil, status.Error(codes.InvalidArgument, "staging target path missing in request")
	}
	if r.GetVolumeId() != "" {
		if err := checkCapability(r.GetVolumeCapability()); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.find(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := v.checkType(r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if v.Staged != "" && v.Staged != path {
		// A path on which nothing is mounted is of before the machine's restart.
		mounted, err := n.mounts.mounted(v.Staged)
		if err != nil {
			return nil, internal(err)
		}
		if mounted || v.Block {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is staged on %s", v.ID, v.Staged)
		}
	}
	v.Staged = path
	if err := n.volumes.put(v.ID, v); err != nil {
		return nil, internal(err)
	}
	if v.Block {
		_, err = n.mounts.attachLoop(n.volumes.contents(v.ID))
	} else {
		err = n.mountOnce(n.volumes.contents(v.ID), path, false)
	}
	if err != nil {
		return nil, internal(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// mountOnce mounts source on target unless something is mounted there. Calls of this driver mount nothing else there.
func (s *server) mountOnce(source, target string, readOnly bool) error {
	mounted, err := s.mounts.mounted(target)
	if mounted || err != nil {
		return err
	}
	return s.mounts.bind(source, target, readOnly)
}

// checkType refuses to use a volume of one access type as one of the other.
func (v *volume) checkType(c *csi.VolumeCapability) error {
	if (c.GetBlock() != nil) != v.Block {
		return status.Errorf(codes.InvalidArgument, "volume %s is of another access type", v.ID)
	}
	return nil
}

// NodeUnstageVolume implements csi.NodeServer.
func (n *node) NodeUnstageVolume(_ context.Context,
	r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if r.GetVolumeId() != "" && path == "" {
		return nil, status.Error(codes.InvalidArgument, "staging target path missing in request")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.find(r.GetVolumeId())
	switch {
	case err != nil:
		return nil, err
	case len(v.Published) > 0:
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still published", v.ID)
	case v.Staged != path:
		return &csi.NodeUnstageVolumeResponse{}, nil
	case v.Block:
		err = n.mounts.detachLoop(n.volumes.contents(v.ID))
	default:
		err = n.mounts.unmount(path)
	}
	if err != nil {
		return nil, internal(err)
	}
	v.Staged = ""
	if err := n.volumes.put(v.ID, v); err != nil {
		return nil, internal(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// ephemeralKey is how a kubelet says, in the context of a volume, that it lives and ends with its pod.
const ephemeralKey = "csi.storage.k8s.io/ephemeral"

// NodePublishVolume implements csi.NodeServer.
func (n *node) NodePublishVolume(_ context.Context,
	r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if r.GetVolumeId() != "" {
		if target == "" {
			return nil, status.Error(codes.InvalidArgument, "target path missing in request")
		}
		if err := checkCapability(r.GetVolumeCapability()); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.published(r)
	if err != nil {
		return nil, err
	}
	mode := r.GetVolumeCapability().GetAccessMode().GetMode()
	wanted := publication{
		ReadOnly: r.GetReadonly() || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		Alone:    mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	}
	if err := v.admits(target, wanted); err != nil {
		return nil, err
	}
	if v.Published == nil {
		v.Published = map[string]publication{}
	}
	v.Published[target] = wanted
	if err := n.volumes.put(v.ID, v); err != nil {
		return nil, internal(err)
	}
	if err := n.mountTarget(v, target, wanted.ReadOnly); err != nil {
		return nil, internal(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// admits refuses a publication that contradicts those there are.
func (v *volume) admits(target string, wanted publication) error {
	for path, have := range v.Published {
		switch {
		case path == target && have != wanted:
			return status.Errorf(codes.AlreadyExists, "volume %s is published on %s with another readonly or access mode",
				v.ID, target)
		case path != target && (have.Alone || wanted.Alone):
			return status.Errorf(codes.FailedPrecondition, "volume %s is published on %s, and one of both wants it alone",
				v.ID, path)
		}
	}
	return nil
}

// published returns the volume that is to be published: one that is staged, or an ephemeral one, which is made.
func (n *node) published(r *csi.NodePublishVolumeRequest) (*volume, error) {
	v, err := n.find(r.GetVolumeId())
	if status.Code(err) == codes.NotFound && r.GetVolumeContext()[ephemeralKey] == "true" {
		return n.makeEphemeral(r)
	}
	if err != nil {
		return nil, err
	}
	if err := v.checkType(r.GetVolumeCapability()); err != nil || v.Ephemeral {
		return v, err
	}
	if r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "staging target path missing in request")
	}
	if v.Staged != r.GetStagingTargetPath() {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged on %s", v.ID,
			r.GetStagingTargetPath())
	}
	return v, nil
}

// sizeKey is the attribute of inline volumes that says how large they are.
const sizeKey = "size"

func (n *node) makeEphemeral(r *csi.NodePublishVolumeRequest) (*volume, error) {
	if r.GetVolumeCapability().GetBlock() != nil {
		return nil, status.Error(codes.InvalidArgument, "an inline volume can't be a block volume")
	}
	if !idPattern.MatchString(r.GetVolumeId()) {
		return nil, status.Errorf(codes.InvalidArgument, "volume ID %q: use letters, digits, dashes, dots, underscores",
			r.GetVolumeId())
	}
	size, err := ephemeralSize(r.GetVolumeContext())
	if err != nil {
		return nil, err
	}
	left, err := n.free()
	if err != nil {
		return nil, err
	}
	if size > left {
		return nil, status.Errorf(codes.ResourceExhausted, "%d bytes are asked for, and %d are left", size, left)
	}
	v := &volume{ID: r.GetVolumeId(), Name: r.GetVolumeId(), Capacity: size, Ephemeral: true,
		Context: r.GetVolumeContext()}
	return v, internal(n.volumes.create(v.ID, v, func(contents string) error { return fill(contents, "", v) }))
}

// mountTarget makes the volume appear on target.
func (n *node) mountTarget(v *volume, target string, readOnly bool) error {
	contents := n.volumes.contents(v.ID)
	if !v.Block {
		if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return n.mountOnce(contents, target, readOnly)
	}
	device, err := n.mounts.attachLoop(contents)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return n.mountOnce(device, target, readOnly)
}

// NodeUnpublishVolume implements csi.NodeServer. An ephemeral volume goes with its last publication.
func (n *node) NodeUnpublishVolume(_ context.Context,
	r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if r.GetVolumeId() != "" && target == "" {
		return nil, status.Error(codes.InvalidArgument, "target path missing in request")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	v, err := n.find(r.GetVolumeId())
	if err != nil && status.Code(err) != codes.NotFound {
		return nil, err
	}
	if v != nil {
		if _, known := v.Published[target]; !known { // it is nothing of this volume
			return &csi.NodeUnpublishVolumeResponse{}, nil
		}
		if err := n.unmountTarget(v, target); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n *node) unmountTarget(v *volume, target string) error {
	if err := n.mounts.unmount(target); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(v.Published, target)
	if v.Ephemeral && len(v.Published) == 0 {
		return n.volumes.remove(v.ID)
	}
	return n.volumes.put(v.ID, v)
}
