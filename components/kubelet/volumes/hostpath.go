package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// hostPaths are paths of the node, of pods and of persistent volumes.
type hostPaths struct{}

// Name implements Plugin.
func (hostPaths) Name() string { return "kubernetes.io/host-path" }

// Supports implements Plugin.
func (hostPaths) Supports(s *Source) bool {
	return s.PV == nil && s.Volume.HostPath != nil || s.PV != nil && s.PV.Spec.HostPath != nil
}

// SetUp implements Plugin.
func (hostPaths) SetUp(_ context.Context, s *Source) (Mounted, error) {
	source := s.Volume.HostPath
	if s.PV != nil {
		source = s.PV.Spec.HostPath
	}
	path, err := hostPath(source)
	return Mounted{Path: path, ReadOnly: s.ReadOnly}, err
}

// hostPath checks a path of the node, and makes it where its type says so
// (https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types).
func hostPath(source *v1.HostPathVolumeSource) (string, error) {
	kind := v1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	info, err := os.Stat(source.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return "", err
	}
	switch kind {
	case v1.HostPathUnset:
		if missing {
			return source.Path, os.MkdirAll(source.Path, 0o755) // as engines do
		}
		return source.Path, nil
	case v1.HostPathDirectoryOrCreate:
		if missing {
			return source.Path, os.MkdirAll(source.Path, 0o755)
		}
	case v1.HostPathFileOrCreate:
		if missing {
			return source.Path, createFile(source.Path)
		}
	}
	if missing || !isKind(info.Mode(), kind) {
		return "", fmt.Errorf("hostPath type check failed: %s is not a %s", source.Path, noun(kind))
	}
	return source.Path, nil
}

func createFile(path string) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func isKind(mode fs.FileMode, kind v1.HostPathType) bool {
	switch kind {
	case v1.HostPathDirectoryOrCreate, v1.HostPathDirectory:
		return mode.IsDir()
	case v1.HostPathFileOrCreate, v1.HostPathFile:
		return mode.IsRegular()
	case v1.HostPathSocket:
		return mode&fs.ModeSocket != 0
	case v1.HostPathCharDev:
		return mode&fs.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	default:
		return false
	}
}

func noun(kind v1.HostPathType) string {
	switch kind {
	case v1.HostPathDirectoryOrCreate, v1.HostPathDirectory:
		return "directory"
	case v1.HostPathFileOrCreate, v1.HostPathFile:
		return "file"
	case v1.HostPathSocket:
		return "socket file"
	case v1.HostPathCharDev:
		return "character device"
	case v1.HostPathBlockDev:
		return "block device"
	default:
		return fmt.Sprintf("%q, which is no known type", kind)
	}
}
