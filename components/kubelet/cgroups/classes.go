package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fewestShares is the kernel's minimum of CPU shares.
const fewestShares = 2

// SetPods bounds what all pods have together. The groups of the classes are made with it: the best-effort pods have
// the least share of the CPUs, and the burstable ones what SetBurstable says.
func (t Tree) SetPods(l Limits) error {
	if t.Mount == "" {
		return nil
	}
	for _, class := range []string{"burstable", "besteffort"} {
		for _, hierarchy := range t.hierarchies() {
			if err := os.MkdirAll(filepath.Join(hierarchy, t.pods(class)), 0o755); err != nil {
				return err
			}
		}
	}
	if err := t.delegate(); err != nil {
		return err
	}
	return errors.Join(t.set(t.pods(""), l), t.setShares(t.pods("besteffort"), fewestShares))
}

// SetBurstable gives the burstable pods, once they have a group, CPU shares: the sum of what they request.
func (t Tree) SetBurstable(shares int64) error {
	if t.Mount == "" {
		return nil
	}
	return t.setShares(t.pods("burstable"), max(shares, fewestShares))
}

// SetReserved bounds a group of other processes, which exists, to what is reserved for them.
func (t Tree) SetReserved(group string, l Limits) error {
	if t.Mount == "" {
		return fmt.Errorf("%s: this kubelet can't make control groups here", group)
	}
	for _, hierarchy := range t.hierarchies() {
		if _, err := os.Stat(filepath.Join(hierarchy, group)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cgroup does not exist", group)
		}
	}
	return t.set(group, l)
}

func (t Tree) pods(class string) string { return filepath.Join("/", t.Root, "kubepods", class) }

func (t Tree) setShares(group string, shares int64) error {
	dir, file, value := filepath.Join(t.Mount, group), "cpu.weight", weight(shares)
	if !t.unified() {
		dir, file, value = filepath.Join(t.Mount, "cpu", group), "cpu.shares", strconv.FormatInt(shares, 10)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return write(dir, file, value)
}

// delegate hands the controllers of version 2 down to the classes' groups.
func (t Tree) delegate() error {
	if !t.unified() {
		return nil
	}
	for _, group := range []string{t.pods(""), t.pods("burstable"), t.pods("besteffort")} {
		dir := filepath.Join(t.Mount, group)
		controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, controller := range strings.Fields(string(controllers)) {
			if err := write(dir, "cgroup.subtree_control", "+"+controller); err != nil {
				return fmt.Errorf("enable cgroup controller %s in %s: %w", controller, group, err)
			}
		}
	}
	return nil
}

// ContainerSettings are what the engine has no options for.
type ContainerSettings struct {
	// KillTogether: the OOM killer ends all processes of the container, not the largest.
	KillTogether bool
	// SwapBytes is how much of the container may be swapped; nil leaves that as the engine made it.
	SwapBytes *int64
}

// SetContainer sets up the group of a container that runs. Version 1 has none of these settings.
func (t Tree) SetContainer(uid types.UID, class v1.PodQOSClass, id string, s ContainerSettings) error {
	if t.Mount == "" || !t.unified() {
		return nil
	}
	dir := filepath.Join(t.Mount, t.Parent(uid, class), id)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended already
	}
	together := "0"
	if s.KillTogether {
		together = "1"
	}
	failures := []error{writeIfThere(dir, "memory.oom.group", together)}
	if s.SwapBytes != nil {
		failures = append(failures, writeIfThere(dir, "memory.swap.max", strconv.FormatInt(*s.SwapBytes, 10)))
	}
	return errors.Join(failures...)
}

// writeIfThere sets a value of a controller that the kernel may lack.
func writeIfThere(dir, file, value string) error {
	if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return write(dir, file, value)
}

// Unified tells that the tree is one of version 2, which alone has swap and kills per container.
func (t Tree) Unified() bool { return t.Mount != "" && t.unified() }
