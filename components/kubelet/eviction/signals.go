package eviction

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/kubelet/cgroups"
)

// Machine reads the signals of this machine. Images lie on the same disk as everything else.
type Machine struct {
	// Root is a directory on the disk.
	Root string
	// Proc is the directory of the kernel's files, "/proc".
	Proc string
	// Cgroup is where the machine's control group is mounted, and Bounds what that may use: a machine in a container has
	// no more than these, and what others use of the rest is none of its business.
	Cgroup string
	Bounds cgroups.Bounds
}

// Levels reads the signals; those that can't be read are missing, and the error tells of the first.
func (m Machine) Levels() (map[Signal]Level, error) {
	levels := map[Signal]Level{}
	memory, err := m.memory()
	if err == nil {
		levels[Memory] = memory
	}
	pids, pidErr := m.pids()
	if pidErr == nil {
		levels[PID] = pids
	} else if err == nil {
		err = pidErr
	}
	var disk unix.Statfs_t
	if diskErr := unix.Statfs(m.Root, &disk); diskErr != nil {
		if err == nil {
			err = fmt.Errorf("space of the disk at %s: %w", m.Root, diskErr)
		}
		return levels, err
	}
	space := Level{int64(disk.Bavail) * int64(disk.Bsize), int64(disk.Blocks) * int64(disk.Bsize)}
	levels[NodeFS], levels[ImageFS] = space, space
	if disk.Files > 0 { // some file systems have no fixed number of inodes
		inodes := Level{int64(disk.Ffree), int64(disk.Files)}
		levels[NodeInodes], levels[ImageInodes] = inodes, inodes
	}
	return levels, err
}

// memory is what is free, and the pages of files that were not used of late: the kernel gives them back.
func (m Machine) memory() (Level, error) {
	if limit := m.Bounds.MemoryBytes; limit > 0 {
		used, err := cgroups.Machine(m.Cgroup, m.Proc)
		return Level{limit - int64(used.WorkingSet), limit}, err
	}
	data, err := os.ReadFile(m.Proc + "/meminfo")
	if err != nil {
		return Level{}, err
	}
	found := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
				found[name] = n << 10
			}
		}
	}
	if found["MemTotal"] == 0 {
		return Level{}, fmt.Errorf("%s/meminfo tells no MemTotal", m.Proc)
	}
	return Level{found["MemFree"] + found["Inactive(file)"], found["MemTotal"]}, nil
}

// ProcessLimit is how many processes and threads there can be.
func ProcessLimit(proc string, bounds cgroups.Bounds) (int64, error) {
	most := bounds.PIDs
	for _, name := range []string{"/sys/kernel/pid_max", "/sys/kernel/threads-max"} {
		data, err := os.ReadFile(proc + name)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s%s: %w", proc, name, err)
		}
		if most == 0 || n < most {
			most = n
		}
	}
	return most, nil
}

func (m Machine) pids() (Level, error) {
	if limit := m.Bounds.PIDs; limit > 0 {
		used, err := cgroups.PIDs(m.Cgroup)
		return Level{limit - used, limit}, err
	}
	most, err := ProcessLimit(m.Proc, m.Bounds)
	if err != nil {
		return Level{}, err
	}
	data, err := os.ReadFile(m.Proc + "/loadavg")
	if err != nil {
		return Level{}, err
	}
	words := strings.Fields(string(data)) // the fourth is "running/all"
	if len(words) < 4 {
		return Level{}, fmt.Errorf("%s/loadavg tells no number of processes", m.Proc)
	}
	_, all, _ := strings.Cut(words[3], "/")
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return Level{}, fmt.Errorf("%s/loadavg: %w", m.Proc, err)
	}
	return Level{most - n, most}, nil
}
