package csidriver

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ControllerPublishVolume implements csi.ControllerServer.
func (c *controller) ControllerPublishVolume(_ context.Context,
	r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if r.GetVolumeId() != "" && r.GetNodeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "node ID missing in request")
	}
	if r.GetVolumeId() != "" {
		if err := checkCapability(r.GetVolumeCapability()); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	switch {
	case err != nil:
		return nil, err
	case r.GetNodeId() != c.config.NodeID:
		return nil, status.Errorf(codes.NotFound, "node %s not found: volume %s is on node %s", r.GetNodeId(), v.ID,
			c.config.NodeID)
	case v.Attached && v.ReadOnly != r.GetReadonly():
		return nil, status.Errorf(codes.AlreadyExists, "volume %s is published to node %s with another readonly", v.ID,
			r.GetNodeId())
	}
	if !v.Attached {
		if err := c.attach(v, r.GetReadonly()); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerPublishVolumeResponse{
		PublishContext: map[string]string{c.config.DriverName + "/contents": filepath.Base(c.volumes.contents(v.ID))}}, nil
}

func (c *controller) attach(v *volume, readOnly bool) error {
	if most := c.config.AttachLimit; most > 0 {
		all, err := c.volumes.list()
		if err != nil {
			return internal(err)
		}
		all = slices.DeleteFunc(all, func(other *volume) bool { return !other.Attached })
		if int64(len(all)) >= most {
			return status.Errorf(codes.ResourceExhausted, "node %s has %d volumes, and takes no more", c.config.NodeID, most)
		}
	}
	v.Attached, v.ReadOnly = true, readOnly
	return internal(c.volumes.put(v.ID, v))
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (c *controller) ControllerUnpublishVolume(_ context.Context,
	r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(r.GetVolumeId())
	switch {
	case status.Code(err) == codes.NotFound:
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	case err != nil:
		return nil, err
	case r.GetNodeId() != "" && r.GetNodeId() != c.config.NodeID:
		return &csi.ControllerUnpublishVolumeResponse{}, nil // it never was there
	case v.Staged != "" || len(v.Published) > 0:
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still used on node %s", v.ID, c.config.NodeID)
	}
	v.Attached, v.ReadOnly = false, false
	if err := c.volumes.put(v.ID, v); err != nil {
		return nil, internal(err)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
