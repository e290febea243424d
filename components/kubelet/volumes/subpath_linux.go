package volumes

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bind mounts what sub is in root, at this moment and without leaving root, on target.
func bind(root, sub, target string) error {
	directory, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(directory)
	found, err := unix.Openat2(directory, sub, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(found)
	var stat unix.Stat_t
	if err := unix.Fstat(found, &stat); err != nil {
		return err
	}
	if err := makeTarget(target, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", found), target, "", unix.MS_BIND|unix.MS_REC, "")
}

// unmountOne unmounts what is on target, if anything is.
func unmountOne(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	if err == unix.EINVAL || err == unix.ENOENT || err == unix.EPERM {
		return nil
	}
	return err
}
