package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Remove removes the control groups of a pod whose containers are gone, whatever its class was, as that of a pod that
// left the API is not known. Processes that are in them all the same are killed, as of a container that its engine does
// not know, since it died while it started that. They may take a moment to end: Remove fails until then, and is to be
// called again.
func (t Tree) Remove(uid types.UID) error {
	if t.Mount == "" || uid == "" {
		return nil
	}
	var failures []error
	for _, hierarchy := range t.hierarchies() {
		for _, class := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
			failures = append(failures, removeGroup(filepath.Join(hierarchy, t.Parent(uid, class))))
		}
	}
	return errors.Join(failures...)
}

// removeGroup removes a group after those in it.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeGroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := killAll(dir); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// killAll kills the processes of one group. Those that are of no concern to this PID namespace have the ID 0 in it.
func killAll(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, field := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}
