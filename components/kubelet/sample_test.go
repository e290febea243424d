//go:build !race

package kubelet

// sample is of how many calls one is tried: of all.
const sample = 1
