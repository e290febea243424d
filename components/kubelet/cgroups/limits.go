package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits are what the containers of a pod have together. A quota, an amount of memory, or a number of processes of 0 is
// no bound.
type Limits struct {
	CPUShares, CPUQuota, CPUPeriod int64
	MemoryBytes                    int64
	PIDs                           int64
}

// Widest has of each resource what the one or the other has more of.
func (l Limits) Widest(o Limits) Limits {
	if o.CPUQuota == 0 || l.CPUQuota != 0 && o.CPUQuota > l.CPUQuota {
		l.CPUQuota, l.CPUPeriod = o.CPUQuota, o.CPUPeriod
	}
	if o.MemoryBytes == 0 || l.MemoryBytes != 0 && o.MemoryBytes > l.MemoryBytes {
		l.MemoryBytes = o.MemoryBytes
	}
	if o.PIDs == 0 || l.PIDs != 0 && o.PIDs > l.PIDs {
		l.PIDs = o.PIDs
	}
	l.CPUShares = max(l.CPUShares, o.CPUShares)
	return l
}

// Set gives the control group of a pod, which its first container made, its limits. Memory that is used is not taken
// away.
func (t Tree) Set(uid types.UID, class v1.PodQOSClass, l Limits) error {
	if t.Mount == "" {
		return nil
	}
	return t.set(t.Parent(uid, class), l)
}

// set gives a group limits.
func (t Tree) set(group string, l Limits) error {
	if t.unified() {
		return setUnified(filepath.Join(t.Mount, group), l)
	}
	if err := setPIDs(filepath.Join(t.Mount, "pids", group), l); err != nil {
		return err
	}
	return setSeparate(filepath.Join(t.Mount, "cpu", group), filepath.Join(t.Mount, "memory", group), l)
}

// setPIDs bounds processes, where the kernel counts them for control groups.
func setPIDs(dir string, l Limits) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && l.PIDs == 0 {
		return nil
	}
	pids := "max"
	if l.PIDs > 0 {
		pids = strconv.FormatInt(l.PIDs, 10)
	}
	return write(dir, "pids.max", pids)
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
	if err := write(dir, "cpu.weight", weight(l.CPUShares)); err != nil {
		return err
	}
	if err := setPIDs(dir, l); err != nil {
		return err
	}
	if err := write(dir, "cpu.max", fmt.Sprintf("%s %d", quota, period)); err != nil {
		return err
	}
	return write(dir, "memory.max", memory)
}

// weight is what version 2 has for the shares of version 1 (KEP-2254).
func weight(shares int64) string { return strconv.FormatInt(1+(shares-2)*9999/262142, 10) }

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

// spare returns an error where a limit would be below the usage. A limit that is not lowered never is:
// what a pod has read from files fills it up to its limit.
func spare(dir, file, usage string, limit int64) error {
	used, err := read(dir, usage)
	if err != nil || limit == 0 || used < limit {
		return nil
	}
	if before, err := read(dir, file); err == nil && before <= limit {
		return nil
	}
	return fmt.Errorf("cannot decrease memory limits: attempting to set pod memory limit (%d) below current usage (%d)",
		limit, used)
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
