package cgroups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func newTree(t *testing.T, unified bool) Tree {
	t.Helper()
	tree := Tree{Mount: t.TempDir(), Root: "/"}
	if unified {
		writeFile(t, filepath.Join(tree.Mount, "cgroup.controllers"), "cpu memory pids\n")
		return tree
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if err := os.Mkdir(filepath.Join(tree.Mount, controller), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func expect(t *testing.T, tree Tree, want map[string]string) {
	t.Helper()
	for file, content := range want {
		if got, err := os.ReadFile(filepath.Join(tree.Mount, file)); strings.TrimSpace(string(got)) != content {
			t.Errorf("%s: %q, %v, want %q", file, got, err, content)
		}
	}
}

func TestClasses(t *testing.T) {
	limits := Limits{CPUShares: 2048, MemoryBytes: 1 << 30, PIDs: 100}
	for name, test := range map[string]struct {
		unified bool
		want    map[string]string
	}{
		"version 1": {false, map[string]string{
			"cpu/kubepods/cpu.shares": "2048", "memory/kubepods/memory.limit_in_bytes": "1073741824",
			"pids/kubepods/pids.max": "100", "cpu/kubepods/besteffort/cpu.shares": "2",
			"cpu/kubepods/burstable/cpu.shares": "512",
		}},
		"version 2": {true, map[string]string{
			"kubepods/cpu.weight": "79", "kubepods/memory.max": "1073741824", "kubepods/pids.max": "100",
			"kubepods/besteffort/cpu.weight": "1", "kubepods/burstable/cpu.weight": "20",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newTree(t, test.unified)
			if err := tree.SetPods(limits); err != nil {
				t.Fatal(err)
			}
			if err := tree.SetBurstable(512); err != nil {
				t.Fatal(err)
			}
			expect(t, tree, test.want)
			if err := tree.SetBurstable(0); err != nil {
				t.Fatal(err)
			}
			file, least := "cpu/kubepods/burstable/cpu.shares", "2"
			if test.unified {
				file, least = "kubepods/burstable/cpu.weight", "1"
			}
			expect(t, tree, map[string]string{file: least})
		})
	}
}

func TestSetReserved(t *testing.T) {
	tree := newTree(t, true)
	err := tree.SetReserved("/system", Limits{CPUShares: 2})
	if err == nil || err.Error() != "/system cgroup does not exist" {
		t.Errorf("a group that is not there: %v", err)
	}
	if err := os.Mkdir(filepath.Join(tree.Mount, "system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tree.SetReserved("/system", Limits{CPUShares: 102, MemoryBytes: 5}); err != nil {
		t.Fatal(err)
	}
	expect(t, tree, map[string]string{"system/memory.max": "5", "system/cpu.weight": "4"})
}

func TestSetContainer(t *testing.T) {
	tree := newTree(t, true)
	group := "kubepods/podu/c1/"
	writeFile(t, filepath.Join(tree.Mount, group+"memory.oom.group"), "0\n")
	writeFile(t, filepath.Join(tree.Mount, group+"memory.swap.max"), "max\n")
	swap := int64(4096)
	for _, test := range []struct {
		settings       ContainerSettings
		together, swap string
	}{
		{ContainerSettings{KillTogether: true}, "1", "max"},
		{ContainerSettings{SwapBytes: &swap}, "0", "4096"},
	} {
		if err := tree.SetContainer("u", v1.PodQOSGuaranteed, "c1", test.settings); err != nil {
			t.Fatal(err)
		}
		expect(t, tree, map[string]string{group + "memory.oom.group": test.together, group + "memory.swap.max": test.swap})
	}
	if err := newTree(t, false).SetContainer("u", v1.PodQOSGuaranteed, "c1", ContainerSettings{}); err != nil {
		t.Errorf("version 1: %v", err)
	}
}
