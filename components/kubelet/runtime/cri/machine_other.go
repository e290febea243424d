//go:build !linux

package cri

import (
	"errors"

	"quintet.dev/quintet/components/kubelet/runtime"
)

type machine struct {
	kernel, system, architecture string
	cpus                         int
	memory                       int64
	cgroupVersion                string
}

func readMachine() (machine, error) {
	return machine{}, errors.New("engines behind CRI are only supported on Linux")
}

func diskOf(string) (runtime.Filesystem, error) {
	return runtime.Filesystem{}, errors.New("only supported on Linux")
}
