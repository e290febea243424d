package cgroups

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestParent(t *testing.T) {
	for _, test := range []struct {
		tree  Tree
		class v1.PodQOSClass
		want  string
	}{
		{Tree{}, v1.PodQOSBurstable, ""},
		{Tree{Mount: "/cg", Root: "/"}, v1.PodQOSGuaranteed, "/kubepods/poda-b"},
		{Tree{Mount: "/cg", Root: "/"}, v1.PodQOSBurstable, "/kubepods/burstable/poda-b"},
		{Tree{Mount: "/cg", Root: "/node/1"}, v1.PodQOSBestEffort, "/node/1/kubepods/besteffort/poda-b"},
	} {
		if got := test.tree.Parent("a-b", test.class); got != test.want {
			t.Errorf("%+v %s: %s, want %s", test.tree, test.class, got, test.want)
		}
	}
}

func TestDetectAndRemove(t *testing.T) {
	for name, files := range map[string][]string{"version 1": {"cpu", "memory"}, "version 2": {"."}} {
		t.Run(name, func(t *testing.T) {
			mount := t.TempDir()
			for _, dir := range files {
				if err := os.MkdirAll(filepath.Join(mount, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if name == "version 2" {
				if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := Detect(mount, "/root")
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range files {
				if err := os.MkdirAll(filepath.Join(mount, dir, tree.Parent("uid", v1.PodQOSBurstable)),
					0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := tree.Remove("uid"); err != nil {
				t.Error(err)
			}
			if err := tree.Remove("uid"); err != nil {
				t.Errorf("again: %v", err)
			}
			for _, dir := range files {
				if left, err := filepath.Glob(filepath.Join(mount, dir, "root/kubepods/*/*")); err != nil ||
					len(left) != 0 {
					t.Errorf("left over: %v, %v", left, err)
				}
			}
		})
	}
}
