package volumes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountMemory mounts a tmpfs on dir; size 0 is the kernel's default.
func mountMemory(dir string, size int64) error {
	options := ""
	if size > 0 {
		options = fmt.Sprintf("size=%d", size)
	}
	return unix.Mount("tmpfs", dir, "tmpfs", 0, options)
}

// mountHugePages mounts a file system of pages of a size, in bytes.
func mountHugePages(dir string, size int64) error {
	return unix.Mount("nodev", dir, "hugetlbfs", 0, fmt.Sprintf("pagesize=%d", size))
}

// isMountPoint tells whether a file system of its own is mounted on dir, which a file system in memory is.
func isMountPoint(dir string) (bool, error) {
	var own, parent unix.Stat_t
	if err := unix.Stat(dir, &own); err != nil {
		return false, fmt.Errorf("stat %s: %w", dir, err)
	}
	if err := unix.Stat(filepath.Dir(dir), &parent); err != nil {
		return false, fmt.Errorf("stat %s: %w", filepath.Dir(dir), err)
	}
	return own.Dev != parent.Dev, nil
}

// unmountBelow unmounts everything mounted below dir, the deepest first.
func unmountBelow(dir string) error {
	resolved, err := filepath.EvalSymlinks(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	points, err := mountPoints(resolved)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil && err != unix.EINVAL &&
			err != unix.ENOENT {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	left, err := mountPoints(resolved)
	if err == nil && len(left) > 0 { // what is removed below it would be removed for its owner
		err = fmt.Errorf("unmount %s: it is still mounted", left[0])
	}
	return err
}

func mountPoints(below string) ([]string, error) {
	var points []string
	err := eachMount(func(point string, _ []string) {
		if strings.HasPrefix(point, below+"/") {
			points = append(points, point)
		}
	})
	return points, err
}

// eachMount visits the mounts of this process, in the order in which they were made, with their optional fields.
func eachMount(visit func(point string, options []string)) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		options := fields[6:]
		if end := slices.Index(options, "-"); end >= 0 {
			options = options[:end]
		}
		visit(unescape(fields[4]), options)
	}
	return lines.Err()
}

// unescape reads the octal escapes of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isMounted tells whether anything is mounted on path, be it of the same file system.
func isMounted(path string) (bool, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	points, err := mountPoints(parent)
	return slices.Contains(points, filepath.Join(parent, filepath.Base(path))), err
}

// bindFlags are the mount options that a bind can have.
var bindFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC,
	"bind": 0, "rw": 0, "suid": 0, "dev": 0, "exec": 0, "defaults": 0,
}

// bindDirectory mounts source on target with options.
func bindDirectory(source, target string, readOnly bool, options []string) error {
	var flags uintptr
	if readOnly {
		flags = unix.MS_RDONLY
	}
	for _, option := range options {
		flag, ok := bindFlags[option]
		if !ok {
			return fmt.Errorf("mount option %q is not one that a directory can be bound with", option)
		}
		flags |= flag
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s on %s: %w", source, target, err)
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		_ = unix.Unmount(target, unix.MNT_DETACH)
		return fmt.Errorf("set the options of %s: %w", target, err)
	}
	return nil
}

// ShareMounts makes what is mounted below dir, the kubelet's root, visible to containers that mount it, and what they
// mount there visible to the node: drivers of volumes in pods need that. Where this process may not mount nothing is
// changed.
func ShareMounts(dir string) error {
	shared, err := isShared(dir)
	if err != nil || shared {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		if err == unix.EPERM {
			return nil
		}
		return fmt.Errorf("bind %s on itself: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts below %s: %w", dir, err)
	}
	return nil
}

// isShared tells whether the mount that dir belongs to is shared with its peers.
func isShared(dir string) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	shared, longest := false, -1
	err = eachMount(func(point string, options []string) {
		root := strings.TrimSuffix(point, "/")
		if (dir == root || strings.HasPrefix(dir, root+"/")) && len(root) >= longest {
			longest = len(root)
			shared = slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "shared:") })
		}
	})
	return shared, err
}
