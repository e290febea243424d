//go:build !linux

package verbs

import "errors"

func mountMemory([]string, Streams) (int, error) { return 1, errors.ErrUnsupported }

func unmount([]string, Streams) (int, error) { return 1, errors.ErrUnsupported }
