package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes/layers"
)

// The files of an image are those that its containers see.
func TestSaveImage(t *testing.T) {
	e := engine(t)
	image, err := e.Image(t.Context(), image())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := e.SaveImage(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := layers.Unpack(archive, filepath.Join(dir, "work"), root); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("files: %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(root, "program")); err != nil || info.Size() == 0 || info.Mode() != 0o755 {
		t.Errorf("program: %v", err)
	}
}

func TestDevices(t *testing.T) {
	e := engine(t)
	_, id := run(t, e, func(s *runtime.ContainerSpec) {
		s.Devices = []runtime.Device{{Source: "/dev/null", Target: "/dev/a"},
			{Source: "/dev/zero", Target: "/dev/b", ReadOnly: true}}
	}, "sleep")
	answer, err := e.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	devices := answer.Container.HostConfig.Devices
	if len(devices) != 2 || devices[0].PathOnHost != "/dev/null" || devices[0].PathInContainer != "/dev/a" ||
		devices[0].CgroupPermissions != "mrw" || devices[1].CgroupPermissions != "mr" {
		t.Errorf("got %+v", devices)
	}
}
