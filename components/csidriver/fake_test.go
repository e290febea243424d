package csidriver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fakeMounts keeps what is mounted where; it survives the driver, as the kernel's mounts do.
type fakeMounts struct {
	mu    sync.Mutex
	at    map[string]string // source by target
	loops map[string]bool   // files
	fail  error             // of the next mount
}

func newFakeMounts() *fakeMounts {
	return &fakeMounts{at: map[string]string{}, loops: map[string]bool{}}
}

func (f *fakeMounts) bind(source, target string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail; err != nil {
		f.fail = nil
		return err
	}
	if f.at[target] != "" {
		return errors.New(target + " is mounted twice")
	}
	f.at[target] = source
	return nil
}

func (f *fakeMounts) unmount(target string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.at, target)
	return nil
}

func (f *fakeMounts) mounted(path string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[path] != "", nil
}

func (f *fakeMounts) attachLoop(file string) (string, error) {
	f.loops[file] = true
	return "/dev/loop-of-" + file, nil
}
func (f *fakeMounts) growLoop(string) error        { return nil }
func (f *fakeMounts) detachLoop(file string) error { delete(f.loops, file); return nil }

// bench is a driver without sockets, whose disk and mounts stay when it is started again.
type bench struct {
	t          *testing.T
	config     *Config
	mounts     *fakeMounts
	controller *controller
	node       *node
	dir        string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, config: testConfig(t), mounts: newFakeMounts(), dir: t.TempDir()}
	b.config.mounts = b.mounts
	b.restart()
	return b
}

// restart starts the driver again, as after a kill.
func (b *bench) restart() {
	b.t.Helper()
	s, err := newServer(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.controller, b.node = &controller{server: s}, &node{server: s}
}

func mountable() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
	}
}

func mappable() *csi.VolumeCapability {
	c := mountable()
	c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	return c
}

func (b *bench) create(name, size string, c *csi.VolumeCapability) (string, error) {
	q := resource.MustParse(size)
	made, err := b.controller.CreateVolume(context.Background(), &csi.CreateVolumeRequest{Name: name,
		VolumeCapabilities: []*csi.VolumeCapability{c}, CapacityRange: &csi.CapacityRange{RequiredBytes: q.Value()}})
	return made.GetVolume().GetVolumeId(), err
}

func (b *bench) mustCreate(name, size string, c *csi.VolumeCapability) string {
	b.t.Helper()
	id, err := b.create(name, size, c)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *bench) stage(id string, c *csi.VolumeCapability) error {
	path := filepath.Join(b.dir, "staging", id)
	if err := os.MkdirAll(path, 0o750); err != nil {
		b.t.Fatal(err)
	}
	_, err := b.node.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{VolumeId: id,
		StagingTargetPath: path, VolumeCapability: c})
	return err
}

func (b *bench) unstage(id string) error {
	_, err := b.node.NodeUnstageVolume(context.Background(), &csi.NodeUnstageVolumeRequest{VolumeId: id,
		StagingTargetPath: filepath.Join(b.dir, "staging", id)})
	return err
}

func (b *bench) target(pod string) string { return filepath.Join(b.dir, pod) }

func (b *bench) publish(id, pod string, c *csi.VolumeCapability, attributes map[string]string) error {
	_, err := b.node.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{VolumeId: id,
		StagingTargetPath: filepath.Join(b.dir, "staging", id), TargetPath: b.target(pod), VolumeCapability: c,
		VolumeContext: attributes})
	return err
}

func (b *bench) unpublish(id, pod string) error {
	_, err := b.node.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{VolumeId: id,
		TargetPath: b.target(pod)})
	return err
}

func (b *bench) remove(id string) error {
	_, err := b.controller.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

// expect fails the test unless err has the code.
func expect(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}
