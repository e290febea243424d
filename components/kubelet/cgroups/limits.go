package cgroups

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits are what the containers of a pod have together. A quota, or an amount of memory, of 0 is no bound.
type Limits struct {
	CPUShares, CPUQuota, CPUPeriod int64
	MemoryBytes                    int64
}

// Widest has of each resource what the one or the other has more of.
func (l Limits) Widest(o Limits) Limits {
	if o.CPUQuota == 0 || l.CPUQuota != 0 && o.CPUQuota > l.CPUQuota {
		l.CPUQuota, l.CPUPeriod = o.CPUQuota, o.CPUPeriod
	}
	if o.MemoryBytes == 0 || l.MemoryBytes != 0 && o.MemoryBytes > l.MemoryBytes {
		l.MemoryBytes = o.MemoryBytes
	}
	l.CPUShares = max(l.CPUShares, o.CPUShares)
	return l
}

// Set gives the control group of a pod, which its first container made, its limits. Memory that is used is not taken away.
// systemd's own are left as it makes them.
func (t Tree) Set(uid types.UID, class v1.PodQOSClass, l Limits) error {
	if t.Mount == "" || t.Systemd {
		return nil
	}
	parent := t.Parent(uid, class)
	if _, err := os.Stat(filepath.Join(t.Mount, "cgroup.controllers")); err == nil {
		return setUnified(filepath.Join(t.Mount, parent), l)
	}
	return setSeparate(filepath.Join(t.Mount, "cpu", parent), filepath.Join(t.Mount, "memory", parent), l)
}

// setUnified is for version 2 of control groups.
func setUnified(dir string, l Limits) error {
	quota, memory := "max", "max"
	period := l.CPUPeriod
	if l.CPUQuota > 0 {
		quota = strconv.FormatInt(l.CPUQuota, 10)
	} else {
		period = 100000
	}
	if l.MemoryBytes > 0 {
		memory = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if err := spare(dir, "memory.max", "memory.current", l.MemoryBytes); err != nil {
		return err
	}
	weight := 1 + (l.CPUShares-2)*9999/262142
	if err := write(dir, "cpu.weight", strconv.FormatInt(weight, 10)); err != nil {
		return err
	}
	if err := write(dir, "cpu.max", fmt.Sprintf("%s %d", quota, period)); err != nil {
		return err
	}
	return write(dir, "memory.max", memory)
}

// setSeparate is for version 1.
func setSeparate(cpu, memory string, l Limits) error {
	quota, bytes := "-1", "-1"
	if err := spare(memory, "memory.limit_in_bytes", "memory.usage_in_bytes", l.MemoryBytes); err != nil {
		return err
	}
	if l.CPUQuota > 0 {
		quota = strconv.FormatInt(l.CPUQuota, 10)
		if err := write(cpu, "cpu.cfs_period_us", strconv.FormatInt(l.CPUPeriod, 10)); err != nil {
			return err
		}
	}
	if l.MemoryBytes > 0 {
		bytes = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if err := write(cpu, "cpu.shares", strconv.FormatInt(l.CPUShares, 10)); err != nil {
		return err
	}
	if err := write(cpu, "cpu.cfs_quota_us", quota); err != nil {
		return err
	}
	return write(memory, "memory.limit_in_bytes", bytes)
}

// spare is an error where memory that is used would be taken away. A limit that is no lower than before takes nothing: what a pod has
// read from files fills it up to its limit.
func spare(dir, file, usage string, limit int64) error {
	used, err := read(dir, usage)
	if err != nil || limit == 0 || used < limit {
		return nil
	}
	if before, err := read(dir, file); err == nil && before <= limit {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)", limit, used)
}

func read(dir, file string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// write sets a value unless it is so: the kernel may refuse even what changes nothing.
func write(dir, file, value string) error {
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(data)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0o600)
}
