package cgroups

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what all processes of a control group used: CPU time since it exists, and memory now, in bytes.
type Usage struct {
	CPU                time.Duration
	Memory, WorkingSet uint64
}

// Machine is the usage of the control group at mount, which a machine in a container has for itself. What its files
// don't tell, as those of a whole machine don't, proc does.
func Machine(mount, proc string) (Usage, error) {
	var u Usage
	read := u.readSeparate
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		read = u.readUnified
	}
	err := read(mount)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	if u.CPU == 0 {
		if err := u.readStat(proc); err != nil {
			return u, err
		}
	}
	if u.Memory == 0 {
		return u, u.readMeminfo(proc)
	}
	return u, nil
}

// readUnified reads version 2 of control groups.
func (u *Usage) readUnified(dir string) error {
	cpu, err := pairs(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return err
	}
	u.CPU = time.Duration(cpu["usage_usec"]) * time.Microsecond
	if u.Memory, err = number(filepath.Join(dir, "memory.current")); err != nil {
		return err
	}
	return u.setWorkingSet(filepath.Join(dir, "memory.stat"), "inactive_file")
}

// readSeparate reads version 1.
func (u *Usage) readSeparate(mount string) error {
	used, err := number(filepath.Join(mount, "cpuacct", "cpuacct.usage"))
	if err != nil {
		return err
	}
	u.CPU = time.Duration(used)
	memory := filepath.Join(mount, "memory")
	if u.Memory, err = number(filepath.Join(memory, "memory.usage_in_bytes")); err != nil {
		return err
	}
	return u.setWorkingSet(filepath.Join(memory, "memory.stat"), "total_inactive_file")
}

func (u *Usage) setWorkingSet(file, inactive string) error {
	stat, err := pairs(file)
	if err != nil {
		return err
	}
	u.WorkingSet = u.Memory - min(stat[inactive], u.Memory)
	return nil
}

// ticks is how many units of /proc/stat are a second: the kernel tells all programs so (USER_HZ).
const ticks = 100

// readStat adds up the time that processors were not idle.
func (u *Usage) readStat(proc string) error {
	data, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	words := strings.Fields(line) // "cpu", user, nice, system, idle, iowait, irq, softirq, steal, ...
	if len(words) < 9 || words[0] != "cpu" {
		return fmt.Errorf("%s/stat tells no time of all processors", proc)
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseUint(words[i], 10, 64)
		if err != nil {
			return fmt.Errorf("%s/stat: %w", proc, err)
		}
		u.CPU += time.Duration(n) * time.Second / ticks
	}
	return nil
}

func (u *Usage) readMeminfo(proc string) error {
	info, err := pairs(filepath.Join(proc, "meminfo"))
	if err != nil {
		return err
	}
	u.Memory = (info["MemTotal:"] - min(info["MemFree:"], info["MemTotal:"])) << 10
	u.WorkingSet = u.Memory - min(info["Inactive(file):"]<<10, u.Memory)
	return nil
}

// pairs reads lines of a name and a number; what follows the number is its unit.
func pairs(file string) (map[string]uint64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			found[words[0]] = n
		}
	}
	return found, lines.Err()
}

func number(file string) (uint64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// PIDs is how many processes and threads there are in the control group at mount.
func PIDs(mount string) (int64, error) {
	file := filepath.Join(mount, "pids", "pids.current")
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		file = filepath.Join(mount, "pids.current")
	}
	n, err := number(file)
	return int64(n), err
}

// Swap is how much the machine can swap, in bytes.
func Swap(proc string) (int64, error) {
	info, err := pairs(filepath.Join(proc, "meminfo"))
	return int64(info["SwapTotal:"] << 10), err
}
