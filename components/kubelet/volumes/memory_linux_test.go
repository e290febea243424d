package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestRemoveTakesMemoryVolumesAway(t *testing.T) {
	m, _ := manager(t, fake.NewClientset())
	m.MemoryLimit = func(*v1.Pod) int64 { return 1 << 20 }
	paths, err := m.Mount(t.Context(),
		podWith(v1.Volume{Name: "v",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("not allowed to mount")
	}
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(paths["v"].Path); err != nil || info.Mode() != 0o777|os.ModeDir|os.ModeSticky {
		t.Errorf("mode: %v, %v", info.Mode(), err)
	}
	var space unix.Statfs_t
	if err := unix.Statfs(paths["v"].Path, &space); err != nil || space.Blocks*uint64(space.Bsize) != 1<<20 {
		t.Errorf("size: %d blocks of %d, %v", space.Blocks, space.Bsize, err)
	}
	if points, err := mountPoints(m.Root); err != nil || !slices.Contains(points, paths["v"].Path) {
		t.Errorf("not mounted: %v, %v", points, err)
	}
	if err := m.Remove(t.Context(), "uid"); err != nil {
		t.Fatal(err)
	}
	if points, err := mountPoints(m.Root); err != nil || len(points) != 0 {
		t.Errorf("still mounted: %v, %v", points, err)
	}
	if uids, err := m.Pods(); err != nil || len(uids) != 0 {
		t.Errorf("left over: %v, %v", uids, err)
	}
}

// A restart of the machine leaves the directories without their mounts: what belongs in memory is mounted again.
func TestMemoryVolumesAreMountedAgain(t *testing.T) {
	m, _ := manager(t, fake.NewClientset())
	pod := podWith(
		v1.Volume{Name: "m",
			VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
		v1.Volume{Name: "d",
			VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			}}}},
		v1.Volume{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	)
	var paths map[string]Mounted
	for _, when := range []string{"before", "after"} {
		var err error
		paths, err = m.Mount(t.Context(), pod)
		if errors.Is(err, os.ErrPermission) {
			t.Skip("not allowed to mount")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"m", "s", "d", "e"} {
			if mounted, err := isMountPoint(paths[name].Path); err != nil || mounted != (name != "e") {
				t.Errorf("%s, %s: mounted: %v, %v", when, name, mounted, err)
			}
		}
		if when == "before" {
			if err := os.WriteFile(filepath.Join(paths["e"].Path, "kept"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unmountBelow(m.Root); err != nil {
				t.Fatal(err)
			}
		}
	}
	if data, err := os.ReadFile(filepath.Join(paths["s"].Path, "p")); err != nil || string(data) != "secret" {
		t.Errorf("secret: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(paths["e"].Path, "kept")); err != nil {
		t.Error(err)
	}
}
