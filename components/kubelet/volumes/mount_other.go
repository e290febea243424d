//go:build !linux

package volumes

import (
	"errors"
	"fmt"
)

func mountMemory(dir string, _ int64) error {
	return fmt.Errorf("mount memory on %s: %w: the kubelet must run on Linux", dir, errors.ErrUnsupported)
}

func isMountPoint(string) (bool, error) { return false, nil }

func unmountBelow(string) error { return nil }

func unmountOne(string) error { return nil }

func bind(_, _, target string) error {
	return fmt.Errorf("mount on %s: %w: the kubelet must run on Linux", target, errors.ErrUnsupported)
}
