package cgroups

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMachine(t *testing.T) {
	const meminfo = "MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  Usage
	}{
		"version 2, in a container": {map[string]string{
			"cgroup.controllers": "cpu memory\n", "cpu.stat": "usage_usec 2500000\nuser_usec 1\n", "memory.current": "1000\n",
			"memory.stat": "anon 1\ninactive_file 300\n",
		}, Usage{CPU: 2500 * time.Millisecond, Memory: 1000, WorkingSet: 700}},
		"version 2, the whole machine": {map[string]string{
			"cgroup.controllers": "cpu memory\n", "cpu.stat": "usage_usec 2500000\n",
		}, Usage{CPU: 2500 * time.Millisecond, Memory: 600 << 10, WorkingSet: 500 << 10}},
		"version 1": {map[string]string{
			"cpuacct/cpuacct.usage": "2500000000\n", "memory/memory.usage_in_bytes": "1000\n",
			"memory/memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n",
		}, Usage{CPU: 2500 * time.Millisecond, Memory: 1000}},
		"nothing mounted": {nil, Usage{CPU: 1380 * time.Millisecond, Memory: 600 << 10, WorkingSet: 500 << 10}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"meminfo": meminfo, "stat": "cpu  100 1 20 5000 400 2 5 10 0 0\ncpu0 1\n"}
			maps.Copy(files, test.files)
			for file, content := range files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := Machine(dir, dir); err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	if got, err := Machine(t.TempDir(), t.TempDir()); err == nil {
		t.Errorf("of nothing: %+v", got)
	}
}
