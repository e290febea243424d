package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// maxManifest is the size in bytes up to which a manifest is read.
const maxManifest = 10 << 20

// followPath reads the manifests at s.Path, and again whenever they change, until ctx ends.
func (s *Sources) followPath(ctx context.Context, replace func([]*v1.Pod)) {
	files := &directory{Sources: s, last: map[string]*v1.Pod{}}
	watcher := files.newWatcher(ctx)
	ticker := s.Clock.NewTicker(s.FileEvery)
	defer ticker.Stop()
	for changed := false; ; {
		if !watcher.watching {
			watcher.add(s.Path)
		}
		if list, err := files.read(ctx, changed); err != nil {
			klog.FromContext(ctx).Error(err, "Unable to read config path", "path", s.Path)
		} else {
			replace(list)
		}
		select {
		case <-ctx.Done():
			watcher.close()
			return
		case event := <-watcher.events():
			changed = true
			watcher.removed(event, s.Path)
		case <-watcher.errors():
			changed = true
		case <-ticker.C():
			changed = false
		}
	}
}

// watcher watches the path where the system can. Without it the path is read now and then.
type watcher struct {
	notifier *fsnotify.Watcher // nil where nothing can be watched
	watching bool              // the path is watched
}

func (d *directory) newWatcher(ctx context.Context) *watcher {
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Manifests can't be watched: they are read periodically")
		return &watcher{}
	}
	return &watcher{notifier: notifier}
}

func (w *watcher) add(path string) {
	w.watching = w.notifier != nil && w.notifier.Add(path) == nil
}

// removed notes that what was watched is no more: the path has to be watched again.
func (w *watcher) removed(event fsnotify.Event, path string) {
	if event.Name == filepath.Clean(path) && event.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		_ = w.notifier.Remove(path) // it fails if the system dropped the watch already
		w.watching = false
	}
}

func (w *watcher) events() <-chan fsnotify.Event {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Events
}

func (w *watcher) errors() <-chan error {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Errors
}

func (w *watcher) close() {
	if w.notifier != nil {
		_ = w.notifier.Close() // nothing is left to be done about an error
	}
}

// directory is the path as it was read last. One goroutine uses it.
type directory struct {
	*Sources
	last map[string]*v1.Pod // by file
}

// read returns the pods of all manifests. A manifest that can't be read has none; after a change, when it may be only
// half written, it keeps the one that it had.
func (d *directory) read(ctx context.Context, changed bool) ([]*v1.Pod, error) {
	files, err := manifests(d.Path)
	if err != nil {
		return nil, err
	}
	var list []*v1.Pod
	last := map[string]*v1.Pod{}
	for _, file := range files {
		pod, err := d.parse(file)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Could not process manifest file", "path", file)
			if pod = d.last[file]; pod == nil || !changed {
				continue
			}
		}
		last[file] = pod
		list = append(list, pod.DeepCopy())
	}
	d.last = last
	return list, nil
}

func (d *directory) parse(path string) (*v1.Pod, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return nil, err
	}
	return d.parser.File(data, path)
}

// manifests lists the files of a directory whose names do not begin with a dot, sorted by name, or the one file at
// path. There are none where path does not exist.
func manifests(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		return []string{path}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("path is not a directory or file")
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		file := filepath.Join(path, entry.Name())
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files, nil
}
