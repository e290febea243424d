package volumes

import "golang.org/x/sys/unix"

// FileSystem tells how full the file system is that holds path.
func FileSystem(path string) (Usage, error) { return fileSystemUsage(path) }

// fileSystemUsage is how full the file system is that a path is on.
func fileSystemUsage(path string) (Usage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Usage{}, err
	}
	size := int64(s.Bsize)
	return Usage{
		Capacity: int64(s.Blocks) * size, Available: int64(s.Bavail) * size, Used: int64(s.Blocks-s.Bfree) * size,
		Inodes: int64(s.Files), InodesFree: int64(s.Ffree), InodesUsed: int64(s.Files) - int64(s.Ffree),
	}, nil
}
