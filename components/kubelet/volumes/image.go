package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"quintet.dev/quintet/components/kubelet/volumes/layers"
	"quintet.dev/quintet/internal/durable"
)

// ErrImageVolume is what the runtime interface of containers calls an image volume that can't be mounted.
var ErrImageVolume = errors.New("ImageVolumeMountFailed")

// imageVolumes are the files of images, for reading only (KEP-4639). As with upstream's kubelet it is not this plug-in
// that makes them but the start of the first container that mounts one: a failure to pull is that container's.
type imageVolumes struct{ m *Manager }

// Name implements Plugin.
func (imageVolumes) Name() string { return "kubernetes.io/image" }

// Supports implements Plugin.
func (imageVolumes) Supports(s *Source) bool { return s.PV == nil && s.Volume.Image != nil }

// SetUp implements Plugin.
func (p imageVolumes) SetUp(context.Context, *Source) (Mounted, error) {
	if p.m.SaveImage == nil {
		return Mounted{}, errors.New("image volumes are not supported by the container engine of this node")
	}
	return Mounted{ReadOnly: true, Fixed: true}, nil
}

// imageDir is where the files of an image are, for all pods of the node.
func (m *Manager) imageDir(id string) string {
	return filepath.Join(PluginDir(m.Root, "kubernetes.io/image"), strings.ReplaceAll(id, ":", "-"))
}

// MountImage makes a volume of a pod from an image that is on the node. A pod keeps the image that it got first. An
// image is unpacked once for all pods, and removed with the last of them.
func (m *Manager) MountImage(ctx context.Context, s *Source, id string) (Mounted, error) {
	m.images.Lock()
	defer m.images.Unlock()
	dir := m.volumeDir(s, imageVolumes{m})
	record := dir + ".image"
	if data, err := os.ReadFile(record); err == nil {
		id = string(data)
	}
	files := m.imageDir(id)
	if _, err := os.Stat(files); errors.Is(err, fs.ErrNotExist) {
		if err := m.unpackImage(ctx, id, files); err != nil {
			return Mounted{}, fmt.Errorf("unpack image %s: %w", id, err)
		}
	} else if err != nil {
		return Mounted{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Mounted{}, err
	}
	if err := durable.ReplaceFile(record, []byte(id), 0o600); err != nil {
		return Mounted{}, err
	}
	where := Mounted{Path: dir, ReadOnly: true, Fixed: true}
	mounted, err := isMounted(dir)
	if err != nil || mounted {
		return where, err
	}
	err = bindDirectory(files, dir, true, nil)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		where.Path = files
		return where, nil
	}
	return where, err
}

// unpackImage writes the files of an image into a directory that appears when it is complete.
func (m *Manager) unpackImage(ctx context.Context, id, dir string) error {
	archive, err := m.SaveImage(ctx, id)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	if err := layers.Unpack(archive, filepath.Join(work, "archive"), root); err != nil {
		return err
	}
	return os.Rename(root, dir)
}

// ImagesInUse are the IDs of images that pods mount as volumes.
func (m *Manager) ImagesInUse() ([]string, error) {
	records, err := filepath.Glob(filepath.Join(m.Root, "pods", "*", "volumes", escape("kubernetes.io/image"), "*.image"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, record := range records {
		data, err := os.ReadFile(record)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the pod went meanwhile
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, string(data))
	}
	return ids, nil
}

// sweepImages removes the files of images that no pod mounts any more.
func (m *Manager) sweepImages() error {
	m.images.Lock()
	defer m.images.Unlock()
	base := filepath.Dir(m.imageDir("x"))
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) || len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	ids, err := m.ImagesInUse()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, id := range ids {
		used[m.imageDir(id)] = true
	}
	for _, entry := range entries {
		if dir := filepath.Join(base, entry.Name()); !used[dir] {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}
