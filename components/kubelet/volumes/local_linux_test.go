package volumes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// mayMount skips a test of mounts where they are not allowed.
func mayMount(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
	if errors.Is(err, os.ErrPermission) {
		t.Skip("not allowed to mount")
	}
	if err == nil {
		err = unix.Unmount(dir, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLocalVolume(t *testing.T) {
	mayMount(t)
	for name, test := range map[string]struct {
		readOnly bool
		options  []string
		flags    int64
	}{
		"plain": {}, "read-only": {readOnly: true, flags: unix.ST_RDONLY},
		"options": {options: []string{"noexec", "nodev"}, flags: unix.ST_NOEXEC | unix.ST_NODEV},
	} {
		t.Run(name, func(t *testing.T) {
			pod, path := claiming(), t.TempDir()
			kept := filepath.Join(path, "kept")
			if err := os.WriteFile(kept, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = test.readOnly
			pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(4242))}
			claim, pv := bound(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}})
			pv.Spec.MountOptions = test.options
			m, _ := manager(t, fake.NewClientset(claim, pv))
			var where Mounted
			for range 2 {
				paths, err := m.Mount(t.Context(), pod)
				if err != nil {
					t.Fatal(err)
				}
				where = paths["v"]
			}
			if where.ReadOnly != test.readOnly {
				t.Errorf("%+v", where)
			}
			points, err := mountPoints(m.Root)
			if err != nil || !slices.Equal(points, []string{where.Path}) {
				t.Errorf("mounted: %q, %v", points, err)
			}
			var s unix.Statfs_t
			if err := unix.Statfs(where.Path, &s); err != nil || int64(s.Flags)&test.flags != test.flags {
				t.Errorf("flags %x, want %x, %v", s.Flags, test.flags, err)
			}
			info, err := os.Stat(filepath.Join(where.Path, "kept"))
			if err != nil {
				t.Fatal(err)
			}
			owned := info.Sys().(*syscall.Stat_t).Gid == 4242 && info.Mode().Perm() == 0o660
			if owned == test.readOnly {
				t.Errorf("owned by the group: %v (%v)", owned, info.Mode())
			}
			if err := m.Remove(t.Context(), "uid"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(kept); err != nil {
				t.Errorf("the volume's files went with its pod: %v", err)
			}
		})
	}
}

func TestUnknownMountOption(t *testing.T) {
	mayMount(t)
	pod := claiming()
	claim, pv := bound(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: t.TempDir()}})
	pv.Spec.MountOptions = []string{"uid=5"}
	m, _ := manager(t, fake.NewClientset(claim, pv))
	if _, err := m.Mount(t.Context(), pod); err == nil {
		t.Error("an option that can't be applied was taken")
	}
}

func TestRootsAreShared(t *testing.T) {
	mayMount(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			t.Error(err)
		}
	})
	for range 2 {
		if err := ShareMounts(dir); err != nil {
			t.Fatal(err)
		}
		if shared, err := isShared(dir); err != nil || !shared {
			t.Errorf("shared: %v, %v", shared, err)
		}
	}
	points := 0
	if err := eachMount(func(point string, _ []string) {
		if point == dir {
			points++
		}
	}); err != nil || points > 1 {
		t.Errorf("mounted %d times, %v", points, err)
	}
}

// imageArchive is the archive of an image with one file, /etc/motd.
const imageArchive = "testdata/image.tar"

func TestImageVolume(t *testing.T) {
	mayMount(t)
	archive, err := os.ReadFile(imageArchive)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := manager(t, fake.NewClientset())
	saved := 0
	m.SaveImage = func(context.Context, string) (io.ReadCloser, error) {
		saved++
		return io.NopCloser(bytes.NewReader(archive)), nil
	}
	volume := v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}}}
	pods := []*v1.Pod{podWith(volume), podWith(volume)}
	pods[1].UID = "other"
	t.Cleanup(func() { _ = m.Remove(context.Background(), "other") })
	var where Mounted
	for _, pod := range pods {
		if _, err := m.Mount(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if where, err = m.MountImage(t.Context(), &Source{Pod: pod, Volume: &volume}, "sha256:abc"); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := os.ReadFile(filepath.Join(where.Path, "etc/motd")); err != nil || string(data) != "hello\n" {
			t.Errorf("%q, %v", data, err)
		}
		if err := os.WriteFile(filepath.Join(where.Path, "x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Errorf("it can be written to: %v", err)
		}
	}
	if saved != 1 {
		t.Errorf("unpacked %d times", saved)
	}
	target := filepath.Join(m.podDir("other"), "volume-subpaths", "v")
	if _, err := SubPath(where, "etc", target); err != nil {
		t.Errorf("subPath: %v", err)
	}
	if _, err := SubPath(where, "nowhere", target); err == nil {
		t.Error("a subPath that is missing was made")
	}
	for i, uid := range []string{"uid", "other"} {
		if err := m.Remove(t.Context(), podUID(uid)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(m.imageDir("sha256:abc")); (err == nil) != (i == 0) {
			t.Errorf("after %s ended: %v", uid, err)
		}
	}
}
