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
		if err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
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
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var points []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, below+"/") {
			points = append(points, point)
		}
	}
	return points, lines.Err()
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
