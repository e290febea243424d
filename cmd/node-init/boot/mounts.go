package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// prepareMounts makes the container's mounts fit for a nested engine: mounts propagate to pods, and cgroups can be
// made.
func prepareMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts shared (is CAP_SYS_ADMIN missing?): %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &fs); err != nil {
		return fmt.Errorf("%s: %w", cgroupRoot, err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return prepareCgroup2(cgroupRoot)
	}
	return prepareCgroup1(cgroupRoot)
}

// nodeDisk is where a node's disk is mounted that it has of its own, if it has one.
const nodeDisk = "/var/lib/quintet/disk"

// onNodeDisk are the directories whose content grows with pods: layers of images and containers, volumes, logs. The
// engines' own records lie elsewhere: dockerd drops the exit of a container that it can't write down, for good.
var onNodeDisk = []string{
	dockerData + "/overlay2", containerdData + "/io.containerd.snapshotter.v1.overlayfs",
	containerdData + "/io.containerd.content.v1.content", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers",
}

// useDisk has directories lie on a disk, if that is there. Each is a mount of its own, so that what is mounted below it
// is mounted there alone.
func useDisk(disk string, dirs []string) error {
	if _, err := os.Stat(disk); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, dir := range dirs {
		kept := filepath.Join(disk, dir)
		for _, made := range []string{kept, dir} {
			if err := os.MkdirAll(made, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(kept, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", kept, dir, err)
		}
		for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
			if err := unix.Mount("", dir, "", propagation, ""); err != nil {
				return fmt.Errorf("propagation of mounts below %s: %w", dir, err)
			}
		}
	}
	return nil
}

// prepareCgroup1 makes every controller's hierarchy writable. Docker mounts them read-only, each rooted at the
// container's own cgroup, so that nothing outside it comes within reach.
func prepareCgroup1(root string) error {
	if err := remountWritable(root); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink != 0 {
			continue // e.g. cpu -> cpu,cpuacct
		}
		if err := remountWritable(filepath.Join(root, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// prepareCgroup2 makes the hierarchy writable, moves all processes into a leaf (a cgroup with processes can't have
// controllers for its children) and hands every controller down
// (https://docs.kernel.org/admin-guide/cgroup-v2.html#no-internal-process-constraint).
func prepareCgroup2(root string) error {
	if err := remountWritable(root); err != nil {
		return err
	}
	leaf := filepath.Join(root, "init")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(pids)) {
		err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0o644)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move process %s to %s: %w", pid, leaf, err)
		}
	}
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(controllers)) {
		path := filepath.Join(root, "cgroup.subtree_control")
		if err := os.WriteFile(path, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enable cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

func remountWritable(path string) error {
	err := unix.Mount("", path, "",
		unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "")
	if errors.Is(err, unix.EINVAL) {
		return nil // not a mount point of its own: it follows its parent
	}
	if err != nil {
		return fmt.Errorf("make %s writable: %w", path, err)
	}
	return nil
}
