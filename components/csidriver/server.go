package csidriver

import (
	"errors"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server has what the controller service and the node service share. One call changes volumes at a time.
type server struct {
	config    *Config
	mounts    mounter
	volumes   store[volume]
	snapshots store[snapshot]

	mu sync.Mutex
}

func newServer(config *Config) (*server, error) {
	s := &server{
		config: config, mounts: config.mounts,
		volumes:   store[volume]{filepath.Join(config.Root, "volumes")},
		snapshots: store[snapshot]{filepath.Join(config.Root, "snapshots")},
	}
	return s, errors.Join(s.volumes.sweep(), s.snapshots.sweep())
}

// find returns a volume, or CSI's errors for an ID that is missing or unknown.
func (s *server) find(id string) (*volume, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume ID missing in request")
	}
	v, err := s.volumes.get(id)
	if err != nil {
		return nil, internal(err)
	}
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", id)
	}
	return v, nil
}

// internal is the error of what the driver can't help; nil stays nil, and what has a code keeps it.
func internal(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := status.FromError(err); coded {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// checkCapability refuses capabilities that the driver doesn't have.
func checkCapability(c *csi.VolumeCapability) error {
	switch {
	case c == nil:
		return status.Error(codes.InvalidArgument, "volume capability missing in request")
	case c.GetMount() == nil && c.GetBlock() == nil:
		return status.Error(codes.InvalidArgument, "volume capability: access type missing: use mount or block")
	case c.GetAccessMode() == nil:
		return status.Error(codes.InvalidArgument, "volume capability: access mode missing")
	case !onOneNode(c.GetAccessMode().GetMode()):
		return status.Errorf(codes.InvalidArgument, "access mode %s: a volume is on one node only",
			c.GetAccessMode().GetMode())
	}
	return nil
}

// onOneNode tells whether a volume of one node can be used in a mode.
func onOneNode(mode csi.VolumeCapability_AccessMode_Mode) bool {
	switch mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return true
	default:
		return false
	}
}

// checkCapabilities is for requests with several; all must have the same access type.
func checkCapabilities(all []*csi.VolumeCapability) error {
	if len(all) == 0 {
		return status.Error(codes.InvalidArgument, "volume capabilities missing in request")
	}
	for _, c := range all {
		if err := checkCapability(c); err != nil {
			return err
		}
		if (c.GetBlock() == nil) != (all[0].GetBlock() == nil) {
			return status.Error(codes.InvalidArgument, "volume capabilities: a volume can't be both mount and block")
		}
	}
	return nil
}

// defaultSize is that of a volume for which no size is asked, in bytes.
const defaultSize = 1 << 30

// sizeOf is how large a volume is made for a range.
func sizeOf(r *csi.CapacityRange) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	switch {
	case required < 0 || limit < 0:
		return 0, status.Error(codes.InvalidArgument, "capacity range: sizes must not be negative")
	case limit > 0 && required > limit:
		return 0, status.Errorf(codes.InvalidArgument, "capacity range: required %d bytes are more than the limit of %d",
			required, limit)
	case required > 0:
		return required, nil
	case limit > 0:
		return min(defaultSize, limit), nil
	default:
		return defaultSize, nil
	}
}

// free is how many bytes are not taken by volumes.
func (s *server) free() (int64, error) {
	all, err := s.volumes.list()
	if err != nil {
		return 0, internal(err)
	}
	left := s.config.Capacity.Value()
	for _, v := range all {
		left -= v.Capacity
	}
	return max(left, 0), nil
}

// page cuts a list: CSI's tokens are positions in it here. The second value is the token of the next page.
func page[T any](all []T, token string, most int32) ([]T, string, error) {
	if most < 0 {
		return nil, "", status.Error(codes.InvalidArgument, "max_entries must not be negative")
	}
	start := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "starting_token %q is none of this driver's", token)
		}
		start = n
	}
	end := len(all)
	if most > 0 {
		end = min(end, start+int(most))
	}
	next := ""
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[start:end], next, nil
}

// topology is where volumes of this node can be used.
func (s *server) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{s.config.topologyKey(): s.config.NodeID}}
}
