package faultinjector

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fill takes all space of the disk that a directory is on, but for free bytes. The file has no name, so that it goes
// with the process; remove gives the space back before.
func fill(dir string, free int64) (remove func(), err error) {
	file, err := os.CreateTemp(dir, ".fill-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	block := make([]byte, 1<<20)
	for size := int64(0); ; {
		var disk unix.Statfs_t
		if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		want := min(int64(disk.Bavail)*disk.Bsize-free, int64(len(block)))
		if want <= 0 {
			return func() { _ = file.Close() }, nil
		}
		n, err := file.WriteAt(block[:want], size)
		size += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return func() { _ = file.Close() }, nil
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
}
