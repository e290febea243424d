package cgroups

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestSwap(t *testing.T) {
	const container = "kubepods/burstable/poduid/id"
	for name, test := range map[string]struct {
		files map[string]string
		want  SwapUsage
	}{
		"version 2": {map[string]string{"cgroup.controllers": "memory", container + "/memory.swap.current": "4096\n",
			container + "/memory.swap.max": "8192\n"}, SwapUsage{ptr.To[uint64](4096), ptr.To[uint64](8192)}},
		"version 2, none": {map[string]string{"cgroup.controllers": "memory", container + "/memory.swap.current": "0\n",
			container + "/memory.swap.max": "0\n"}, SwapUsage{ptr.To[uint64](0), ptr.To[uint64](0)}},
		"version 2, no limit": {map[string]string{"cgroup.controllers": "memory",
			container + "/memory.swap.max": "max\n"}, SwapUsage{}},
		"version 1": {map[string]string{"memory/" + container + "/memory.memsw.limit_in_bytes": "300\n",
			"memory/" + container + "/memory.limit_in_bytes": "100\n"}, SwapUsage{nil, ptr.To[uint64](200)}},
		"version 1, no limit": {map[string]string{
			"memory/" + container + "/memory.memsw.limit_in_bytes": "9223372036854771712\n",
			"memory/" + container + "/memory.limit_in_bytes":       "100\n"}, SwapUsage{}},
		"version 1, no swap": {map[string]string{"memory/" + container + "/memory.limit_in_bytes": "100\n"},
			SwapUsage{}},
	} {
		mount := t.TempDir()
		for file, text := range test.files {
			path := filepath.Join(mount, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := Tree{Mount: mount, Root: "/"}.Swap("uid", v1.PodQOSBurstable, "id")
		if !ptr.Equal(got.Used, test.want.Used) || !ptr.Equal(got.Limit, test.want.Limit) {
			t.Errorf("%s: got %v, %v", name, ptr.Deref(got.Used, 1), ptr.Deref(got.Limit, 1))
		}
	}
	if got := (Tree{}).Swap("uid", v1.PodQOSBurstable, "id"); got != (SwapUsage{}) {
		t.Errorf("no control groups: %v", got)
	}
}
