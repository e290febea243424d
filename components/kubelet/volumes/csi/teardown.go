package csi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// TearDown implements volumes.Releaser: what is on the disk tells what was published to the pod. A volume that no other
// pod of the node uses is unstaged.
func (p *Plugin) TearDown(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var failures []error
	for _, dir := range []struct {
		path    string
		release func(context.Context, types.UID, string) error
	}{
		{volumes.PodVolumes(p.Root, uid, pluginName), p.unmount},
		{volumes.PodDevices(p.Root, uid, pluginName), p.unmapDevice},
	} {
		entries, err := os.ReadDir(dir.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
		for _, entry := range entries {
			failures = append(failures, dir.release(ctx, uid, entry.Name()))
		}
	}
	return errors.Join(failures...)
}

// unmount withdraws a volume from a pod.
func (p *Plugin) unmount(ctx context.Context, uid types.UID, name string) error {
	files := layout{p.Root}
	dir := files.published(uid, name)
	r, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) { // the kubelet ended before it asked the driver for anything
		if err := removeRecord(dir); err != nil {
			return err
		}
		return removeDir(dir)
	}
	if err != nil {
		return err
	}
	return p.locks.with(r.DriverName+"^"+r.VolumeHandle, func() error {
		client, err := p.Drivers.connect(r.DriverName)
		if err != nil {
			return err
		}
		defer client.close()
		target := filepath.Join(dir, "mount")
		if _, err := client.node.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{
			VolumeId: r.VolumeHandle, TargetPath: target,
		}); err != nil {
			return err
		}
		p.forget(uid, name)
		if err := p.unstage(ctx, client, r, dir); err != nil {
			return err
		}
		if err := removeDir(target); err != nil {
			return err
		}
		if err := removeRecord(dir); err != nil {
			return err
		}
		return removeDir(dir)
	})
}

// unstage ends what was prepared for all pods of the node, unless a directory but the one that is given belongs to
// another pod that uses the volume.
func (p *Plugin) unstage(ctx context.Context, client *client, r record, but string) error {
	files := layout{p.Root}
	records, err := files.records()
	if err != nil {
		return err
	}
	for dir, other := range records {
		if dir != but && other.DriverName == r.DriverName && other.VolumeHandle == r.VolumeHandle {
			return nil
		}
	}
	dir := files.staged(r.DriverName, r.VolumeHandle)
	staging := filepath.Join(dir, "globalmount")
	if _, err := os.Stat(filepath.Join(dir, recordFile)); err == nil {
		if _, err := client.node.NodeUnstageVolume(ctx, &csispec.NodeUnstageVolumeRequest{
			VolumeId: r.VolumeHandle, StagingTargetPath: staging,
		}); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Without a record, a kubelet ended before it had the volume staged, or after the driver unstaged it.
	if err := removeDir(staging); err != nil {
		return err
	}
	if err := removeRecord(dir); err != nil {
		return err
	}
	if err := removeDir(dir); err != nil {
		return err
	}
	p.unuse(uniqueName(r.DriverName, r.VolumeHandle))
	return nil
}

// unmapDevice withdraws a block volume from a pod.
func (p *Plugin) unmapDevice(ctx context.Context, uid types.UID, name string) error {
	files := layout{p.Root}
	link := filepath.Join(volumes.PodDevices(p.Root, uid, pluginName), name)
	r, err := readRecord(files.deviceRecord(name))
	if errors.Is(err, fs.ErrNotExist) {
		files.sweepDevice(name) // the kubelet ended before the record was there
		return removeDir(link)
	}
	if err != nil {
		return err
	}
	return p.locks.with(r.DriverName+"^"+r.VolumeHandle, func() error {
		client, err := p.Drivers.connect(r.DriverName)
		if err != nil {
			return err
		}
		defer client.close()
		device := files.publishedDevice(name, uid)
		if _, err := client.node.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{
			VolumeId: r.VolumeHandle, TargetPath: device,
		}); err != nil {
			return err
		}
		p.forget(uid, name)
		if err := removeDir(device); err != nil {
			return err
		}
		if err := p.unstageDevice(ctx, client, r, name); err != nil {
			return err
		}
		return removeDir(link)
	})
}

func (p *Plugin) unstageDevice(ctx context.Context, client *client, r record, name string) error {
	files := layout{p.Root}
	published := filepath.Dir(files.publishedDevice(name, "x"))
	if entries, err := os.ReadDir(published); err == nil && len(entries) > 0 {
		return nil // other pods use it
	}
	staging := files.stagedDevice(name)
	if _, err := os.Stat(staging); err == nil {
		if _, err := client.node.NodeUnstageVolume(ctx, &csispec.NodeUnstageVolumeRequest{
			VolumeId: r.VolumeHandle, StagingTargetPath: staging,
		}); err != nil {
			return err
		}
		if err := os.RemoveAll(staging); err != nil {
			return err
		}
	}
	if err := removeDir(published); err != nil {
		return err
	}
	p.unuse(uniqueName(r.DriverName, r.VolumeHandle))
	return os.RemoveAll(filepath.Dir(files.deviceRecord(name)))
}

func (p *Plugin) forget(uid types.UID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.published, publishKey{uid, name})
}
