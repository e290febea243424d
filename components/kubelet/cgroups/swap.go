package cgroups

import (
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SwapUsage is how many bytes of a container are swapped, and how many may be. What the kernel does not tell and a
// limit that is not set are nil.
type SwapUsage struct{ Used, Limit *uint64 }

// Swap reads the swap of a container that runs. Version 1 of control groups bounds memory and swap together, and tells
// only what may be swapped.
func (t Tree) Swap(uid types.UID, class v1.PodQOSClass, id string) SwapUsage {
	if t.Mount == "" {
		return SwapUsage{}
	}
	group := filepath.Join(t.Parent(uid, class), id)
	if t.unified() {
		dir := filepath.Join(t.Mount, group)
		return SwapUsage{Used: amount(dir, "memory.swap.current"), Limit: amount(dir, "memory.swap.max")}
	}
	dir := filepath.Join(t.Mount, "memory", group)
	both, memory := amount(dir, "memory.memsw.limit_in_bytes"), amount(dir, "memory.limit_in_bytes")
	if both == nil || memory == nil || *both < *memory {
		return SwapUsage{}
	}
	return SwapUsage{Limit: new(*both - *memory)}
}

// amount reads a file of one number, nil where it is missing or without bound.
func amount(dir, file string) *uint64 {
	words, err := boundWords(dir, file)
	if err != nil || len(words) != 1 {
		return nil
	}
	n, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil || n >= unbounded {
		return nil
	}
	return &n
}
