package cgroups

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hugepages-2048kB", "nr_hugepages"), "3\n")
	writeFile(t, filepath.Join(dir, "hugepages-1048576kB", "nr_hugepages"), "0\n")
	writeFile(t, filepath.Join(dir, "other", "nr_hugepages"), "9\n")
	got, err := HugePages(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, want := range map[v1.ResourceName]string{"hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"} {
		if quantity := got[name]; quantity.String() != want {
			t.Errorf("%s: %s, want %s", name, &quantity, want)
		}
	}
	if got, err := HugePages(filepath.Join(dir, "none")); got != nil || err != nil {
		t.Errorf("without the directory: %v, %v", got, err)
	}
}

func TestSetHugePages(t *testing.T) {
	limits := v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), v1.ResourceCPU: resource.MustParse("1")}
	for name, test := range map[string]struct{ controller, suffix string }{
		"version 1": {"hugetlb", ".limit_in_bytes"}, "version 2": {"", ".max"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Tree{Mount: t.TempDir(), Root: "/"}
			if test.controller == "" {
				writeFile(t, filepath.Join(tree.Mount, "cgroup.controllers"), "")
			}
			dir := filepath.Join(tree.Mount, test.controller, tree.Parent("u", v1.PodQOSBurstable))
			for _, size := range []string{"2MB", "1GB"} {
				writeFile(t, filepath.Join(dir, "hugetlb."+size+test.suffix), "max\n")
			}
			if err := tree.SetHugePages("u", v1.PodQOSBurstable, limits); err != nil {
				t.Fatal(err)
			}
			for size, want := range map[string]string{"2MB": "4194304", "1GB": "0"} {
				if got, err := os.ReadFile(filepath.Join(dir, "hugetlb."+size+test.suffix)); string(got) != want {
					t.Errorf("%s: %q, %v, want %q", size, got, err, want)
				}
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
