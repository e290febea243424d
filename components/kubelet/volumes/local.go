package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// locals are directories and devices of one node (https://kubernetes.io/docs/concepts/storage/volumes/#local).
type locals struct{ m *Manager }

// Name implements Plugin.
func (locals) Name() string { return "kubernetes.io/local-volume" }

// Supports implements Plugin.
func (locals) Supports(s *Source) bool { return s.PV != nil && s.PV.Spec.Local != nil }

// SupportsMountOptions implements MountOptioner.
func (locals) SupportsMountOptions() bool { return true }

// SetUp implements Plugin: the directory is bound into the pod's, with the options of the persistent volume.
func (p locals) SetUp(_ context.Context, s *Source) (Mounted, error) {
	source := s.PV.Spec.Local.Path
	info, err := localFile(source)
	if err != nil {
		return Mounted{}, Fails(StepInit, err)
	}
	if !info.IsDir() {
		return Mounted{}, Fails(StepStage, errors.New("only directories can be mounted as a file system: a device that "+
			"holds one has to be mounted on the node first, and the volume's path to be the mount's"))
	}
	dir := p.m.volumeDir(s, p)
	mounted, err := isMounted(dir)
	if err != nil {
		return Mounted{}, err
	}
	where := Mounted{Path: dir, ReadOnly: s.ReadOnly}
	if mounted {
		return where, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return Mounted{}, err
	}
	if group := s.FSGroup(); group != nil && !s.ReadOnly {
		if err := SetOwnership(source, *group, s.Pod.Spec.SecurityContext.FSGroupChangePolicy); err != nil {
			return Mounted{}, err
		}
	}
	err = bindDirectory(source, dir, s.ReadOnly, s.MountOptions())
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		where.Path = source // this process may not mount
		return where, nil
	}
	return where, err
}

// SetUpDevice implements BlockPlugin: the device is linked into the pod's directory.
func (p locals) SetUpDevice(_ context.Context, s *Source) (Mounted, error) {
	source := s.PV.Spec.Local.Path
	info, err := localFile(source)
	if err != nil {
		return Mounted{}, Fails(StepMap, err)
	}
	if info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return Mounted{}, Fails(StepMap, fmt.Errorf("path %q is not a block device", source))
	}
	return LinkDevice(p.m.Root, s, p.Name(), source)
}

// localFile is what is at the path of a local volume.
func localFile(path string) (fs.FileInfo, error) {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return nil, fmt.Errorf("invalid path: %s must not contain '..'", path)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("path %q does not exist", path)
	}
	return info, err
}

// LinkDevice links a device into the directory of a source's pod, below the kubelet's root, where upstream's kubelet
// has it.
func LinkDevice(root string, s *Source, plugin, device string) (Mounted, error) {
	where := Mounted{Path: device, Block: true, ReadOnly: s.ReadOnly}
	link := filepath.Join(PodDevices(root, s.Pod.UID, plugin), s.Name())
	if target, err := os.Readlink(link); err == nil && target == device {
		return where, nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return Mounted{}, err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Mounted{}, err
	}
	return where, os.Symlink(device, link)
}
