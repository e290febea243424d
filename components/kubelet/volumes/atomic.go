package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writer puts a payload into a directory so that readers see all of the old files or all of the new ones:
// the files live in a time-stamped directory, "..data" links to it, and each visible name links through "..data".
// An update makes a new directory and swaps "..data" by one rename.
type writer struct {
	dir   string
	group *int64 // owns the files, if set
	now   func() time.Time
}

const (
	dataLink = "..data"
	newLink  = "..data_tmp"
)

func (w writer) write(payload map[string]file) error {
	for name := range payload {
		if err := checkPath(name); err != nil {
			return err
		}
	}
	old, err := os.Readlink(filepath.Join(w.dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && w.same(old, payload) {
		return w.link(payload) // an earlier write may have been cut short
	}
	fresh, err := w.fill(payload)
	if err != nil {
		return err
	}
	if err := w.swap(filepath.Base(fresh)); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := w.link(payload); err != nil {
		return err
	}
	return w.sweep(filepath.Base(fresh))
}

// checkPath refuses names that would leave the directory or hide among the writer's own.
func checkPath(name string) error {
	if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
		return fmt.Errorf("path %q is not allowed: it must be relative and not start with \"..\"", name)
	}
	return nil
}

func (w writer) same(old string, payload map[string]file) bool {
	root := filepath.Join(w.dir, old)
	count := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		want, ok := payload[name]
		if !ok {
			return fs.ErrNotExist
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want.data) || info.Mode().Perm() != w.mode(want) {
			return fs.ErrInvalid
		}
		return nil
	})
	return err == nil && count == len(payload)
}

// mode is a file's mode; the volume's group may read.
func (w writer) mode(f file) fs.FileMode {
	mode := fs.FileMode(f.mode).Perm()
	if w.group != nil {
		mode |= 0o440
	}
	return mode
}

// fill writes the payload to a new directory.
func (w writer) fill(payload map[string]file) (string, error) {
	dir, err := os.MkdirTemp(w.dir, w.now().UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return "", err
	}
	if err := w.own(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(payload)) {
		if err := w.put(dir, name, payload[name]); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

func (w writer) put(dir, name string, f file) error {
	path := filepath.Join(dir, name)
	for parent := filepath.Dir(name); parent != "."; parent = filepath.Dir(parent) {
		if err := os.MkdirAll(filepath.Join(dir, parent), 0o755); err != nil {
			return err
		}
		if err := w.own(filepath.Join(dir, parent), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, f.data, 0o600); err != nil {
		return err
	}
	if w.group != nil || f.uid != nil {
		uid, gid := -1, -1
		if f.uid != nil {
			uid = int(*f.uid)
		}
		if w.group != nil {
			gid = int(*w.group)
		}
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, w.mode(f)) // after the chown, and whatever the umask
}

func (w writer) own(dir string, mode fs.FileMode) error {
	if w.group != nil {
		if err := os.Chown(dir, -1, int(*w.group)); err != nil {
			return err
		}
		mode |= fs.ModeSetgid
	}
	return os.Chmod(dir, mode)
}

func (w writer) swap(fresh string) error {
	temporary := filepath.Join(w.dir, newLink)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(fresh, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(w.dir, dataLink))
}

// link makes the visible names that are missing.
func (w writer) link(payload map[string]file) error {
	for name := range payload {
		first, _, _ := strings.Cut(name, "/")
		err := os.Symlink(filepath.Join(dataLink, first), filepath.Join(w.dir, first))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// sweep removes visible names that lead nowhere and directories that are not current.
func (w writer) sweep(current string) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == dataLink || name == current {
			continue
		}
		if strings.HasPrefix(name, "..") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, name)))
			continue
		}
		if _, statErr := os.Stat(filepath.Join(w.dir, name)); errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(filepath.Join(w.dir, name)))
		}
	}
	return err
}
