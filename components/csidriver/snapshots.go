package csidriver

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// CreateSnapshot implements csi.ControllerServer: it copies the contents as they are at this moment.
func (c *controller) CreateSnapshot(_ context.Context,
	r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	switch {
	case r.GetName() == "":
		return nil, status.Error(codes.InvalidArgument, "snapshot name missing in request")
	case r.GetSourceVolumeId() == "":
		return nil, status.Error(codes.InvalidArgument, "source volume ID missing in request")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idOf("snap", r.GetName())
	existing, err := c.snapshots.get(id)
	switch {
	case err != nil:
		return nil, internal(err)
	case existing != nil && existing.Source != r.GetSourceVolumeId():
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists of volume %s", r.GetName(), existing.Source)
	case existing != nil:
		return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(existing)}, nil
	}
	v, err := c.find(r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	taken := &snapshot{ID: id, Name: r.GetName(), Source: v.ID, Capacity: v.Capacity, Block: v.Block,
		Created: c.config.Clock.Now().UTC()}
	if err := c.snapshots.create(id, taken, func(contents string) error {
		return copyTree(c.volumes.contents(v.ID), contents)
	}); err != nil {
		return nil, internal(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(taken)}, nil
}

func describeSnapshot(s *snapshot) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.Capacity, ReadyToUse: true,
		CreationTime: timestamppb.New(s.Created)}
}

// DeleteSnapshot implements csi.ControllerServer.
func (c *controller) DeleteSnapshot(_ context.Context,
	r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "snapshot ID missing in request")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found, err := c.snapshots.get(r.GetSnapshotId())
	if err == nil && found != nil {
		err = c.snapshots.remove(found.ID)
	}
	if err != nil {
		return nil, internal(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// ListSnapshots implements csi.ControllerServer.
func (c *controller) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.snapshots.list()
	if err != nil {
		return nil, internal(err)
	}
	all = slices.DeleteFunc(all, func(s *snapshot) bool {
		return r.GetSnapshotId() != "" && s.ID != r.GetSnapshotId() ||
			r.GetSourceVolumeId() != "" && s.Source != r.GetSourceVolumeId()
	})
	some, next, err := page(all, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	answer := &csi.ListSnapshotsResponse{NextToken: next}
	for _, s := range some {
		answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: describeSnapshot(s)})
	}
	return answer, nil
}
