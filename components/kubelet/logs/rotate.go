package logs

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// stamp is the ending of a file that was rotated.
	stamp = "20060102-150405"
	// zipped is the ending of a rotated file that is compressed, unfinished of one that is being made.
	zipped, unfinished = ".gz", ".tmp"
)

// rotate gives the file another name, by the time, and begins a new one. Two within a second would have the same name:
// the file gets longer then. All rotated files but the newest are compressed, and the oldest are deleted.
func (w *writer) rotate() error {
	if name, err := w.putAside(); err != nil || name == "" {
		return err
	}
	w.close()
	w.file = nil
	if err := w.reopen(); err != nil {
		return err
	}
	return w.tidy()
}

// putAside gives the file its other name, which it returns, or "" if that is taken.
func (w *writer) putAside() (string, error) {
	name := w.path + "." + w.clock.Now().Format(stamp)
	if exists(name) || exists(name+zipped) {
		return "", nil
	}
	return name, os.Rename(w.path, name)
}

// tidy compresses and deletes rotated files.
func (w *writer) tidy() error {
	rotated, err := w.rotated()
	if err != nil {
		return err
	}
	for len(rotated) > w.maxFiles-1 {
		if err := os.Remove(rotated[0]); err != nil {
			return err
		}
		rotated = rotated[1:]
	}
	for _, file := range rotated[:max(len(rotated)-1, 0)] {
		if filepath.Ext(file) == zipped {
			continue
		}
		if err := compress(file); err != nil {
			return err
		}
	}
	return nil
}

// rotated are the rotated files, the oldest first.
func (w *writer) rotated() ([]string, error) {
	found, err := filepath.Glob(w.path + ".*")
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(file string) bool { return strings.HasSuffix(file, unfinished) })
	slices.Sort(found)
	return found, nil
}

// compress puts a compressed file in the place of another.
func compress(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	half := path + unfinished
	out, err := os.OpenFile(half, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	to := gzip.NewWriter(out)
	_, err = io.Copy(to, in)
	if err = errors.Join(err, to.Close(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(half))
	}
	if err := os.Rename(half, path+zipped); err != nil {
		return err
	}
	return os.Remove(path)
}
