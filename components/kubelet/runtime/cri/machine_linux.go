package cri

import (
	"bufio"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// machine is the one that the kubelet shares with its engine, which tells nothing of it.
type machine struct {
	kernel, system, architecture string
	cpus                         int
	memory                       int64 // bytes
	cgroupVersion                string
}

func readMachine() (machine, error) {
	m := machine{architecture: goruntime.GOARCH, cpus: goruntime.NumCPU(), cgroupVersion: "1", system: "linux"}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.kernel = unix.ByteSliceToString(name.Release[:])
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("sysinfo: %w", err)
	}
	m.memory = int64(info.Totalram) * int64(info.Unit)
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		m.cgroupVersion = "2"
	}
	if release, err := os.ReadFile("/etc/os-release"); err == nil {
		m.system = prettyName(string(release), m.system)
	}
	return m, nil
}

// prettyName reads the name of the system from an os-release file.
func prettyName(release, otherwise string) string {
	for lines := bufio.NewScanner(strings.NewReader(release)); lines.Scan(); {
		value, found := strings.CutPrefix(lines.Text(), "PRETTY_NAME=")
		if !found {
			continue
		}
		if unquoted, err := strconv.Unquote(value); err == nil {
			return unquoted
		}
		return value
	}
	return otherwise
}

// diskOf measures the file system that a directory lies on.
func diskOf(dir string) (runtime.Filesystem, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return runtime.Filesystem{}, err
	}
	return runtime.Filesystem{Path: dir, Capacity: int64(disk.Blocks) * disk.Bsize,
		Available: int64(disk.Bavail) * disk.Bsize}, nil
}
