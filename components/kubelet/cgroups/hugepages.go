package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// HugePages reads how much memory the kernel keeps as huge pages, by resource name, from its directory
// /sys/kernel/mm/hugepages; a machine without that directory has none.
func HugePages(dir string) (v1.ResourceList, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := v1.ResourceList{}
	for _, entry := range entries {
		var kib int64
		if _, err := fmt.Sscanf(entry.Name(), "hugepages-%dkB", &kib); err != nil {
			continue
		}
		n, err := number(filepath.Join(dir, entry.Name(), "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		size := resource.NewQuantity(kib<<10, resource.BinarySI)
		found[v1.ResourceName(v1.ResourceHugePagesPrefix+size.String())] =
			*resource.NewQuantity(int64(n)*kib<<10, resource.BinarySI)
	}
	return found, nil
}

// SetHugePages bounds the huge pages of a pod, whose control group exists, to limits by resource name: those that
// limits leaves out it may not use. Only sizes that the kernel counts for control groups can be set.
func (t Tree) SetHugePages(uid types.UID, class v1.PodQOSClass, limits v1.ResourceList) error {
	if t.Mount == "" {
		return nil
	}
	dir, suffix := filepath.Join(t.Mount, t.Parent(uid, class)), ".max"
	if !t.unified() {
		dir, suffix = filepath.Join(t.Mount, "hugetlb", t.Parent(uid, class)), ".limit_in_bytes"
	}
	files, err := filepath.Glob(filepath.Join(dir, "hugetlb.*B"+suffix))
	if err != nil {
		return err
	}
	wanted := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		size, is := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !is {
			continue
		}
		page, err := resource.ParseQuantity(size)
		if err != nil {
			return fmt.Errorf("huge pages %s: %w", name, err)
		}
		quantity := limits[name]
		wanted["hugetlb."+pageName(page.Value())+suffix] = quantity.Value()
	}
	var failures []error
	for _, file := range files {
		name := filepath.Base(file)
		failures = append(failures, write(dir, name, strconv.FormatInt(wanted[name], 10)))
	}
	return errors.Join(failures...)
}

// pageName is a size as files of control groups are named after it, such as 2MB.
func pageName(size int64) string {
	units := []string{"B", "KB", "MB", "GB"}
	unit := 0
	for size >= 1024 && size%1024 == 0 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	return strconv.FormatInt(size, 10) + units[unit]
}
