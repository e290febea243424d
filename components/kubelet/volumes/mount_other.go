//go:build !linux

package volumes

import (
	"errors"
	"fmt"
)

func mountMemory(dir string, _ int64) error {
	return fmt.Errorf("mount memory on %s: %w: the kubelet must run on Linux", dir, errors.ErrUnsupported)
}

func mountHugePages(dir string, _ int64) error { return mountMemory(dir, 0) }

func isMountPoint(string) (bool, error) { return false, nil }

func unmountBelow(string) error { return nil }

func unmountOne(string) error { return nil }

func bind(_, _, target string) error {
	return fmt.Errorf("mount on %s: %w: the kubelet must run on Linux", target, errors.ErrUnsupported)
}

func isMounted(string) (bool, error) { return false, nil }

func bindDirectory(_, target string, _ bool, _ []string) error {
	return fmt.Errorf("mount on %s: %w: the kubelet must run on Linux", target, errors.ErrUnsupported)
}

// ShareMounts does nothing here.
func ShareMounts(string) error { return nil }
