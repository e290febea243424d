package audit

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// fileConfig says where a log is kept and when it is changed for another.
type fileConfig struct {
	Path       string
	MaxSize    int64 // bytes; 0 means no bound
	MaxAge     int   // days
	MaxBackups int
	Compress   bool
	Clock      clock.PassiveClock
}

// file is a log that is rotated when it is full. Names are those that upstream gives, through
// gopkg.in/natefinch/lumberjack.v2: name-2006-01-02T15-04-05.000.ext. (That package leaves a goroutine behind for each
// log, which a server that is one of many in a test must not.) It is safe for concurrent use.
type file struct {
	fileConfig
	mu    sync.Mutex
	out   *os.File
	size  int64
	tidy  sync.Mutex     // held by the cleanup of old files
	tasks sync.WaitGroup // that look after old files
}

func openFile(config fileConfig) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o700); err != nil {
		return nil, err
	}
	f := &file{fileConfig: config}
	return f, f.open(0o600)
}

func (f *file) open(mode os.FileMode) error {
	out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		_ = out.Close()
		return err
	}
	f.out, f.size = out, info.Size()
	return nil
}

// Write appends p, to a new file if the old one has no room for it.
func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out == nil {
		return 0, os.ErrClosed
	}
	if f.MaxSize > 0 {
		if int64(len(p)) > f.MaxSize {
			return 0, fmt.Errorf("%d bytes are more than the file may have (%d)", len(p), f.MaxSize)
		}
		if f.size+int64(len(p)) > f.MaxSize {
			if err := f.rotate(); err != nil {
				return 0, err
			}
		}
	}
	n, err := f.out.Write(p)
	f.size += int64(n)
	return n, err
}

// Close writes no more, and returns when the cleanup of old files has stopped.
func (f *file) Close() error {
	f.mu.Lock()
	out := f.out
	f.out = nil
	f.mu.Unlock()
	f.tasks.Wait()
	if out == nil {
		return nil
	}
	return out.Close()
}

// rotate begins a new file; nothing is written as long as it can't. The old one may have been moved away by another
// process, or by an earlier attempt.
func (f *file) rotate() error {
	info, err := f.out.Stat()
	if err != nil {
		return err
	}
	now := f.Clock.Now()
	if err := os.Rename(f.Path, f.backup(now)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := f.out
	if err := f.open(info.Mode()); err != nil {
		return err
	}
	_ = old.Close()
	f.tasks.Go(func() {
		f.tidy.Lock()
		defer f.tidy.Unlock()
		if err := f.clean(now); err != nil {
			klog.ErrorS(err, "Failed to clean up old audit logs", "path", f.Path)
		}
	})
	return nil
}

const (
	backupTime = "2006-01-02T15-04-05.000"
	compressed = ".gz"
)

// parts of the names of old files, around the time.
func (f *file) parts() (prefix, ext string) {
	base := filepath.Base(f.Path)
	ext = filepath.Ext(base)
	return strings.TrimSuffix(base, ext) + "-", ext
}

func (f *file) backup(at time.Time) string {
	prefix, ext := f.parts()
	return filepath.Join(filepath.Dir(f.Path), prefix+at.UTC().Format(backupTime)+ext)
}

// old is a file that was full.
type old struct {
	path   string
	at     time.Time
	zipped bool
}

// clean removes old files that are too many or too old, and compresses the others if that is wanted.
func (f *file) clean(now time.Time) error {
	files, err := f.old()
	if err != nil {
		return err
	}
	for i, o := range files {
		tooOld := f.MaxAge > 0 && o.at.Before(now.Add(-time.Duration(f.MaxAge)*24*time.Hour))
		tooMany := f.MaxBackups > 0 && i >= f.MaxBackups
		switch {
		case tooOld || tooMany:
			err = os.Remove(o.path)
		case f.Compress && !o.zipped:
			err = compress(o.path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// old lists the old files, the newest first.
func (f *file) old() ([]old, error) {
	dir := filepath.Dir(f.Path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	prefix, ext := f.parts()
	var out []old
	for _, e := range entries {
		name, zipped := strings.CutSuffix(e.Name(), compressed)
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || !strings.HasSuffix(rest, ext) || e.IsDir() {
			continue
		}
		at, err := time.Parse(backupTime, strings.TrimSuffix(rest, ext))
		if err != nil {
			continue // not a rotated log of this file
		}
		out = append(out, old{filepath.Join(dir, e.Name()), at, zipped})
	}
	slices.SortFunc(out, func(a, b old) int { return b.at.Compare(a.at) })
	return out, nil
}

// compress replaces a file by its compressed form.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path+compressed, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, in)
	for _, end := range []func() error{zip.Close, out.Close} {
		if failed := end(); err == nil {
			err = failed
		}
	}
	if err != nil {
		_ = os.Remove(path + compressed)
		return err
	}
	return os.Remove(path)
}
