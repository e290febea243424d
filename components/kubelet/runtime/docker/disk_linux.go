package docker

import (
	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// diskOf measures the file system that a directory lies on.
func diskOf(dir string) (runtime.Filesystem, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return runtime.Filesystem{}, err
	}
	return runtime.Filesystem{Capacity: int64(disk.Blocks) * disk.Bsize, Available: int64(disk.Bavail) * disk.Bsize}, nil
}
