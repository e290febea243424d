package csidriver

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"quintet.dev/quintet/internal/durable"
)

// volume is what is kept of a volume on the disk.
type volume struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"` // bytes
	// Block tells that the volume is a file behind a loop device, not a directory.
	Block bool `json:"block,omitempty"`
	// Ephemeral tells that it was made by its publication, and goes with that.
	Ephemeral      bool              `json:"ephemeral,omitempty"`
	Context        map[string]string `json:"context,omitempty"`
	SourceVolume   string            `json:"sourceVolume,omitempty"`
	SourceSnapshot string            `json:"sourceSnapshot,omitempty"`
	// Attached tells that the controller has published it to this node; ReadOnly, that it did so for reading only.
	Attached bool `json:"attached,omitempty"`
	ReadOnly bool `json:"readOnly,omitempty"`
	// Staged is the path on which it is staged. Published are those on which it is published.
	Staged    string                 `json:"staged,omitempty"`
	Published map[string]publication `json:"published,omitempty"`
}

// publication is how a volume is published on a path.
type publication struct {
	ReadOnly bool `json:"readOnly,omitempty"`
	// Alone tells that no other path may have the volume meanwhile.
	Alone bool `json:"alone,omitempty"`
}

// inUse tells whether the volume must stay.
func (v *volume) inUse() bool { return v.Attached || v.Staged != "" || len(v.Published) > 0 }

// snapshot is what is kept of a snapshot on the disk.
type snapshot struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Capacity int64     `json:"capacity"`
	Block    bool      `json:"block,omitempty"`
	Created  time.Time `json:"created"`
}

// store keeps things of one type, each in a directory of its own: its record, and its contents beside. Something is
// there when its record is. The caller lets one change at a time through.
type store[T any] struct{ dir string }

const recordFile = "record.json"

// idPattern is what IDs look like. Others are unknown, and never become paths.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// idOf gives the same ID to the same name.
func idOf(prefix, name string) string {
	return fmt.Sprintf("%s-%x", prefix, sha256.Sum256([]byte(name)))[:len(prefix)+33]
}

// contents is the directory, or the file of a block volume, that has the data of id.
func (s store[T]) contents(id string) string { return filepath.Join(s.dir, id, "data") }

// get returns what id names; nil if there is no such thing.
func (s store[T]) get(id string) (*T, error) {
	if !idPattern.MatchString(id) {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(s.dir, id, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := new(T)
	if err := json.Unmarshal(data, found); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, id, recordFile), err)
	}
	return found, nil
}

// put writes the record of id; a crash leaves the old one or the new one.
func (s store[T]) put(id string, record *T) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, id, recordFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return durable.ReplaceFile(path, data, 0o600)
}

// create makes contents by fill, and the record after them. What an earlier attempt left is removed first.
func (s store[T]) create(id string, record *T, fill func(contents string) error) error {
	dir := filepath.Join(s.dir, id)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := fill(s.contents(id)); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return s.put(id, record)
}

// remove deletes the record, and the contents after it.
func (s store[T]) remove(id string) error {
	if err := os.Remove(filepath.Join(s.dir, id, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(filepath.Join(s.dir, id))
}

// list returns everything, in the order of the IDs.
func (s store[T]) list() ([]*T, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []*T
	for _, entry := range entries {
		found, err := s.get(entry.Name())
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, found)
		}
	}
	return all, nil
}

// sweep makes the directory, and removes from it what was being made or removed when the driver ended.
func (s store[T]) sweep() error {
	if err := os.MkdirAll(s.dir, 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if found, err := s.get(entry.Name()); err != nil || found != nil {
			continue // one that can't be read is left for its user
		}
		if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a directory or a file with modes and owners; holes of files are kept.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		switch mode := info.Mode(); {
		case mode.IsDir():
			err = os.Mkdir(target, mode.Perm())
		case mode.IsRegular():
			err = copyFile(path, target, info)
		case mode&fs.ModeSymlink != 0:
			var link string
			if link, err = os.Readlink(path); err == nil {
				err = os.Symlink(link, target)
			}
		default:
			return nil // sockets, pipes and devices have no data
		}
		if err != nil {
			return err
		}
		return copyOwner(target, info)
	})
}

// copyFile copies the data of a file; blocks of zeroes become holes.
func copyFile(from, to string, info fs.FileInfo) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	const block = 1 << 20
	buffer, zeroes := make([]byte, block), make([]byte, block)
	var failed error
	for {
		n, err := io.ReadFull(source, buffer)
		if n > 0 && slices.Equal(buffer[:n], zeroes[:n]) {
			_, failed = target.Seek(int64(n), io.SeekCurrent)
		} else if n > 0 {
			_, failed = target.Write(buffer[:n])
		}
		if err != nil || failed != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				failed = errors.Join(failed, err)
			}
			break
		}
	}
	return errors.Join(failed, target.Truncate(info.Size()), target.Close())
}
