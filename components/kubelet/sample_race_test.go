//go:build race

package kubelet

// sample is of how many calls one is tried: the race detector makes each ten times as long.
const sample = 8
