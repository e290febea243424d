package cgroups

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBoundsOf(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  Bounds
		fails bool
	}{
		"version 2": {map[string]string{"cgroup.controllers": "cpu memory pids", "cpu.max": "150000 100000\n",
			"memory.max": "1073741824\n", "pids.max": "500\n", "memory.swap.max": "0\n"}, Bounds{1500, 1 << 30, 500, true},
			false},
		"version 2, no bound": {map[string]string{"cgroup.controllers": "cpu memory pids", "cpu.max": "max 100000\n",
			"memory.max": "max\n", "pids.max": "max\n", "memory.swap.max": "max\n"}, Bounds{}, false},
		"version 2, the whole machine": {map[string]string{"cgroup.controllers": "cpu memory"}, Bounds{}, false},
		"version 1": {map[string]string{"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n",
			"memory/memory.limit_in_bytes": "4096\n", "pids/pids.max": "9\n",
			"memory/memory.memsw.limit_in_bytes": "4096\n"}, Bounds{2000, 4096, 9, true}, false},
		"version 1, no bound": {map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n",
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "pids/pids.max": "max\n"}, Bounds{}, false},
		"not a number": {map[string]string{"cgroup.controllers": "", "memory.max": "many"}, Bounds{}, true},
		"no period":    {map[string]string{"cgroup.controllers": "", "cpu.max": "100 0"}, Bounds{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			for file, content := range test.files {
				path := filepath.Join(mount, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := BoundsOf(mount); got != test.want || (err != nil) != test.fails {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}
