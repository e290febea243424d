package csidriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

func (systemMounts) bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("mount %s read-only: %w", target, err), unix.Unmount(target, 0))
	}
	return nil
}

func (systemMounts) unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err == nil || err == unix.EINVAL || err == unix.ENOENT { // it is no mount point
		return nil
	}
	return fmt.Errorf("unmount %s: %w", target, err)
}

func (systemMounts) mounted(path string) (bool, error) {
	found, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return found, err
}

const (
	loopMajor    = 7
	miscMajor    = 10
	controlMinor = 237 // of /dev/loop-control, Documentation/admin-guide/devices.txt
)

func (systemMounts) attachLoop(file string) (string, error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close()
	control, err := openDevice("/dev/loop-control", unix.S_IFCHR, unix.Mkdev(miscMajor, controlMinor))
	if err != nil {
		return "", fmt.Errorf("a block volume needs loop devices: %w", err)
	}
	defer control.Close()
	for {
		device, err := findLoop(file)
		if device != "" || err != nil {
			return device, err
		}
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("a free loop device: %w", err)
		}
		err = configureLoop(number, backing)
		if err != nil && !errors.Is(err, unix.EBUSY) { // another program took it meanwhile
			return "", err
		}
	}
}

func configureLoop(number int, backing *os.File) error {
	device, err := openLoop(number)
	if err != nil {
		return err
	}
	defer device.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		return fmt.Errorf("configure %s: %w", device.Name(), err)
	}
	return nil
}

func openLoop(number int) (*os.File, error) {
	return openDevice("/dev/loop"+strconv.Itoa(number), unix.S_IFBLK, unix.Mkdev(loopMajor, uint32(number)))
}

// openDevice opens a device, for which /dev may have no node yet: loop devices come after the container, and on a
// node that is a container without the machine's devices none is there from the beginning.
func openDevice(path string, kind uint32, number uint64) (*os.File, error) {
	if err := unix.Mknod(path, kind|0o660, int(number)); err != nil && err != unix.EEXIST {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// findLoop returns the loop device of file, "" for none. Files are compared by device and inode: paths may be those of
// another mount namespace.
func findLoop(file string) (string, error) {
	var wanted unix.Stat_t
	if err := unix.Stat(file, &wanted); err != nil {
		return "", fmt.Errorf("stat %s: %w", file, err)
	}
	used, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return "", err
	}
	for _, dir := range used {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "loop"))
		if err != nil {
			continue
		}
		device, err := openLoop(number)
		if err != nil {
			continue // it went meanwhile, or is not for this container
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		_ = device.Close()
		if err == nil && info.Device == wanted.Dev && info.Inode == wanted.Ino {
			return device.Name(), nil
		}
	}
	return "", nil
}

func (systemMounts) growLoop(file string) error {
	return onLoop(file, unix.LOOP_SET_CAPACITY)
}

func (systemMounts) detachLoop(file string) error {
	return onLoop(file, unix.LOOP_CLR_FD)
}

// onLoop carries out a request without an argument on the loop device of file, if there is one.
func onLoop(file string, request uint) error {
	path, err := findLoop(file)
	if path == "" || err != nil {
		return err
	}
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.IoctlSetInt(int(device.Fd()), request, 0); err != nil && err != unix.ENXIO {
		return fmt.Errorf("loop device %s: %w", path, err)
	}
	return nil
}

func copyOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(stat.Uid), int(stat.Gid))
}

// usageOf returns the bytes and inodes that a directory has on the disk.
func usageOf(dir string) (bytes, inodes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a pod removed it meanwhile
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		inodes++
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += stat.Blocks * 512
		}
		return nil
	})
	return bytes, inodes, err
}
