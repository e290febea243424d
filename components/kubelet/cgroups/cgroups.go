// Package cgroups names the control groups of pods and cleans them up. The engine makes them, as parents of its
// containers; the layout is upstream's: kubepods, then the quality of service, then the pod.
package cgroups

import (
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Tree is where pods' control groups are. The zero value leaves containers where the engine puts them.
type Tree struct {
	Mount string // such as /sys/fs/cgroup; "" is the zero value's
	Root  string // below it, such as "/"
}

// Detect tells whether this process may make control groups below root, and returns the tree if so.
func Detect(mount, root string) (Tree, error) {
	t := Tree{Mount: mount, Root: root}
	for _, hierarchy := range t.hierarchies() {
		if err := os.MkdirAll(filepath.Join(hierarchy, root, "kubepods"), 0o755); err != nil {
			return Tree{}, err
		}
	}
	return t, nil
}

// hierarchies are the mounts of the controllers: one in version 2, several in version 1.
func (t Tree) hierarchies() []string {
	if t.unified() {
		return []string{t.Mount}
	}
	entries, err := os.ReadDir(t.Mount)
	if err != nil {
		return nil
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() { // links are second names of joined controllers
			found = append(found, filepath.Join(t.Mount, entry.Name()))
		}
	}
	return found
}

// unified tells that this is version 2 of control groups.
func (t Tree) unified() bool {
	_, err := os.Stat(filepath.Join(t.Mount, "cgroup.controllers"))
	return err == nil
}

// Parent is the control group of a pod in the engine's notation, "" for the engine's default.
func (t Tree) Parent(uid types.UID, class v1.PodQOSClass) string {
	if t.Mount == "" {
		return ""
	}
	parts := []string{"kubepods"}
	if class != v1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(class)))
	}
	parts = append(parts, "pod"+string(uid))
	return filepath.Join(append([]string{"/", t.Root}, parts...)...)
}
