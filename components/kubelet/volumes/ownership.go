package volumes

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// SetOwnership gives a volume to a group: files become readable and writable by it, directories also searchable, and
// what is made in them later belongs to it too. With the policy OnRootMismatch nothing below the volume's root is
// visited if the root has all that already
// (https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods).
func SetOwnership(dir string, group int64, policy *v1.PodFSGroupChangePolicy) error {
	if policy != nil && *policy == v1.FSGroupChangeOnRootMismatch {
		if info, err := os.Lstat(dir); err == nil && owned(info, group) {
			return nil
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return change(path, info, group)
	})
	if err != nil {
		return err
	}
	info, err := os.Stat(dir) // the root is changed last: an interrupted change is found by it
	if err != nil {
		return err
	}
	return change(dir, info, group)
}

func change(path string, info fs.FileInfo, group int64) error {
	if err := os.Lchown(path, -1, int(group)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	return os.Chmod(path, wantedMode(info.Mode()))
}

func wantedMode(mode fs.FileMode) fs.FileMode {
	wanted := mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) | 0o660
	if mode.IsDir() {
		wanted |= 0o110 | fs.ModeSetgid
	}
	return wanted
}

func owned(info fs.FileInfo, group int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	bits := fs.ModePerm | fs.ModeSetgid
	return ok && int64(stat.Gid) == group && wantedMode(info.Mode())&bits == info.Mode()&bits
}
