package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSet(t *testing.T) {
	full := Limits{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryBytes: 1 << 20}
	for name, test := range map[string]struct {
		unified bool
		limits  Limits
		usage   string // of memory
		before  string // its limit
		want    map[string]string
		fails   bool
	}{
		"version 1": {limits: full, want: map[string]string{
			"cpu/cpu.shares": "512", "cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000",
			"memory/memory.limit_in_bytes": "1048576",
		}},
		"version 1, unbounded": {limits: Limits{CPUShares: 2}, want: map[string]string{
			"cpu/cpu.shares": "2", "cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": "-1",
		}},
		"version 1, in use": {limits: full, usage: "1048576", fails: true},
		"version 2": {unified: true, limits: full,
			want: map[string]string{"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": "1048576"}},
		"version 2, unbounded": {unified: true, limits: Limits{CPUShares: 2}, want: map[string]string{
			"cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "max",
		}},
		"version 2, in use": {unified: true, limits: full, usage: "2000000", before: "max", fails: true},
		"version 1, full": {limits: full, usage: "1048576", before: "1048576", want: map[string]string{
			"cpu/cpu.shares": "512", "memory/memory.limit_in_bytes": "1048576\n",
		}},
		"version 2, full": {unified: true, limits: full, usage: "1048576", before: "1048576",
			want: map[string]string{"cpu.weight": "20", "memory.max": "1048576\n"}},
		"version 2, larger": {unified: true, limits: full, usage: "1048576", before: "1000000",
			want: map[string]string{"memory.max": "1048576"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Tree{Mount: t.TempDir(), Root: "/"}
			parent := tree.Parent("u", v1.PodQOSBurstable)
			group := func(file string) string {
				if test.unified {
					return filepath.Join(tree.Mount, parent, file)
				}
				return filepath.Join(tree.Mount, filepath.Dir(file), parent, filepath.Base(file))
			}
			usage, limit, weight := "memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes", "cpu/cpu.shares"
			if test.unified {
				usage, limit, weight = "memory.current", "memory.max", "cpu.weight"
				if err := os.WriteFile(filepath.Join(tree.Mount, "cgroup.controllers"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{group(usage), group("cpu/cpu.shares")} {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for file, value := range map[string]string{usage: test.usage, limit: test.before} {
				if value == "" {
					continue
				}
				if err := os.WriteFile(group(file), []byte(value+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := tree.Set("u", v1.PodQOSBurstable, test.limits); (err != nil) != test.fails {
				t.Fatal(err)
			}
			if _, err := os.Stat(group(weight)); test.fails && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("half of it was done: %v", err)
			}
			for file, want := range test.want {
				if got, err := os.ReadFile(group(file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", file, got, err, want)
				}
			}
		})
	}
	if err := (Tree{}).Set("u", v1.PodQOSBurstable, full); err != nil {
		t.Errorf("without groups: %v", err)
	}
}

func TestWidest(t *testing.T) {
	small := Limits{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100000, MemoryBytes: 1}
	large := Limits{CPUShares: 4, CPUQuota: 2000, CPUPeriod: 100000, MemoryBytes: 2}
	unbounded := Limits{CPUShares: 3}
	if got := small.Widest(large); got != large {
		t.Errorf("got %+v", got)
	}
	if got := large.Widest(small); got != large {
		t.Errorf("got %+v", got)
	}
	want := Limits{CPUShares: 4}
	if got := large.Widest(unbounded); got != want {
		t.Errorf("got %+v", got)
	}
	if got := unbounded.Widest(large); got != want {
		t.Errorf("got %+v", got)
	}
}
