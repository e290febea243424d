package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// SubPath resolves a subPath inside a volume and makes it, as a directory with the volume's mode, if it is missing.
// What is missing in a volume that is fixed is an error. Links that lead out of the volume are refused. What was found
// is bound to target, below the pod's directory, so that a container that swaps a directory for a link afterwards gains
// nothing; target is returned. Where this process may not mount, the resolved path is.
func SubPath(volume Mounted, sub, target string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q must be relative and stay inside its volume", sub)
	}
	root, err := filepath.EvalSymlinks(volume.Path)
	if err != nil {
		return "", err
	}
	inside, err := os.OpenRoot(root) // whose operations do not follow links outward
	if err != nil {
		return "", err
	}
	defer inside.Close()
	if _, err := inside.Stat(sub); errors.Is(err, fs.ErrNotExist) && !volume.Fixed {
		if err := makeBelow(inside, sub); err != nil {
			return "", fmt.Errorf("make subPath %q: %w", sub, err)
		}
	} else if err != nil && volume.Fixed {
		return "", fmt.Errorf("%w: subPath %q: %w", ErrImageVolume, sub, err)
	} else if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	}
	resolved, err := filepath.EvalSymlinks(filepath.Join(root, sub))
	if err != nil {
		return "", err
	}
	if resolved != root && !strings.HasPrefix(resolved, root+"/") {
		return "", fmt.Errorf("subPath %q leads out of its volume", sub)
	}
	err = bind(root, sub, target)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return resolved, nil
	}
	if err != nil {
		return "", fmt.Errorf("bind subPath %q: %w", sub, err)
	}
	return target, nil
}

// makeBelow makes the missing directories of sub. They get the volume's mode and group, whatever the umask: users with
// write access to the volume can write to them.
func makeBelow(inside *os.Root, sub string) error {
	volume, err := inside.Stat(".")
	if err != nil {
		return err
	}
	path := ""
	for _, part := range strings.Split(filepath.Clean(sub), "/") {
		path = filepath.Join(path, part)
		err := inside.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := inside.Chmod(path, volume.Mode().Perm()|volume.Mode()&fs.ModeSetgid); err != nil {
			return err
		}
	}
	return nil
}

// makeTarget makes an empty directory or file to mount on, instead of what an earlier run of the container left.
func makeTarget(target string, directory bool) error {
	if err := unmountOne(target); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if directory {
		return os.Mkdir(target, 0o750)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}
