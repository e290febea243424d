package provisioner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// directories are those of volumes, side by side in one. A directory without a volume as yet has a mark beside it.
type directories struct{ root string }

// markPrefix begins the names of marks; that of the volume follows.
const markPrefix = ".pending-"

func (d directories) path(volume string) string { return filepath.Join(d.root, volume) }
func (d directories) mark(volume string) string { return filepath.Join(d.root, markPrefix+volume) }

// create makes the directory of a volume, or takes the one that is there, and marks it. Any user of a container may
// write to it.
func (d directories) create(volume string) error {
	if err := os.MkdirAll(d.root, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(d.mark(volume), nil, 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(d.path(volume), 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Chmod(d.path(volume), 0o777) // whatever the umask
}

// settled takes off the mark: the volume exists.
func (d directories) settled(volume string) error {
	if err := os.Remove(d.mark(volume)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// remove deletes the directory of a volume with all in it. A volume that points elsewhere is refused.
func (d directories) remove(volume *v1.PersistentVolume) error {
	path := d.path(volume.Name)
	if volume.Spec.Local == nil || filepath.Clean(volume.Spec.Local.Path) != path ||
		filepath.Dir(path) != filepath.Clean(d.root) {
		return fmt.Errorf("volume %s is not in the directory %s of this provisioner", volume.Name, d.root)
	}
	return d.discard(volume.Name)
}

func (d directories) discard(volume string) error {
	if err := os.RemoveAll(d.path(volume)); err != nil {
		return err
	}
	return d.settled(volume)
}

// marked returns the volumes whose directories are marked.
func (d directories) marked() ([]string, error) {
	entries, err := os.ReadDir(d.root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var volumes []string
	for _, entry := range entries {
		if volume, ok := strings.CutPrefix(entry.Name(), markPrefix); ok {
			volumes = append(volumes, volume)
		}
	}
	return volumes, err
}
