package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds are what a control group may use at most; 0 is no bound.
type Bounds struct {
	MilliCPUs   int64
	MemoryBytes int64
	PIDs        int64
	NoSwap      bool // none of the memory is swapped
}

// unbounded is less than what version 1 calls no limit of memory, and more than machines have.
const unbounded = 1 << 62

// BoundsOf reads what the control group at mount, which a machine in a container has for itself, is bounded by. Files
// that the control group of a whole machine lacks are no bound.
func BoundsOf(mount string) (Bounds, error) {
	read := separateBounds
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		read = unifiedBounds
	}
	b, err := read(mount)
	if err != nil {
		return Bounds{}, fmt.Errorf("limits of the control group at %s: %w", mount, err)
	}
	return b, nil
}

func unifiedBounds(mount string) (b Bounds, err error) {
	words, err := boundWords(mount, "cpu.max")
	if err != nil {
		return b, err
	}
	if len(words) == 2 && words[0] != "max" {
		if b.MilliCPUs, err = milliCPUs(words[0], words[1]); err != nil {
			return b, err
		}
	}
	if b.MemoryBytes, err = bound(mount, "memory.max"); err != nil {
		return b, err
	}
	swap, err := boundWords(mount, "memory.swap.max")
	if err != nil {
		return b, err
	}
	b.NoSwap = len(swap) == 1 && swap[0] == "0"
	b.PIDs, err = bound(mount, "pids.max")
	return b, err
}

func separateBounds(mount string) (b Bounds, err error) {
	quota, err := boundWords(mount, "cpu/cpu.cfs_quota_us")
	if err != nil {
		return b, err
	}
	if len(quota) == 1 && quota[0] != "-1" {
		period, err := boundWords(mount, "cpu/cpu.cfs_period_us")
		if err != nil || len(period) != 1 {
			return b, fmt.Errorf("cpu.cfs_period_us: %q, %w", period, err)
		}
		if b.MilliCPUs, err = milliCPUs(quota[0], period[0]); err != nil {
			return b, err
		}
	}
	if b.MemoryBytes, err = bound(mount, "memory/memory.limit_in_bytes"); err != nil {
		return b, err
	}
	both, err := bound(mount, "memory/memory.memsw.limit_in_bytes")
	if err != nil {
		return b, err
	}
	b.NoSwap = both > 0 && both == b.MemoryBytes
	b.PIDs, err = bound(mount, "pids/pids.max")
	return b, err
}

// boundWords reads the words of a file, none if it is not there.
func boundWords(mount, file string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(mount, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// bound reads a file of one number, 0 if that is none.
func bound(mount, file string) (int64, error) {
	words, err := boundWords(mount, file)
	if err != nil || len(words) != 1 || words[0] == "max" {
		return 0, err
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	if n >= unbounded {
		return 0, nil
	}
	return n, nil
}

func milliCPUs(quota, period string) (int64, error) {
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("CPU quota: %w", err)
	}
	p, err := strconv.ParseInt(period, 10, 64)
	if err != nil || p <= 0 {
		return 0, fmt.Errorf("CPU period %q: %w", period, err)
	}
	return q * 1000 / p, nil
}
