//go:build !linux

package docker

import (
	"errors"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func diskOf(string) (runtime.Filesystem, error) { return runtime.Filesystem{}, errors.ErrUnsupported }
