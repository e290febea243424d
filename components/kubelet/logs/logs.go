// Package logs keeps the output of containers as files where log collectors look for them: in the layout of
// /var/log/pods and /var/log/containers and the format of CRI
// (https://kubernetes.io/docs/concepts/cluster-administration/logging/). It follows what the engine has of each
// container and continues after a restart where the files end.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Source is where the output of containers is read.
type Source interface {
	Logs(ctx context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error
}

// Manager writes the files of a node's containers. It is safe for concurrent use.
type Manager struct {
	Source Source
	// Files, if set, writes the files itself; they are linked and rotated here.
	Files runtime.LogFiles
	// Dir has a directory for each pod, Links a link to the file of each container.
	Dir, Links string
	// MaxBytes is how long a file gets before another takes its place, MaxFiles how many a run of a container has.
	MaxBytes int64
	MaxFiles int
	Clock    clock.Clock

	mu       sync.Mutex
	followed map[string]*follower // by ID of container
	wait     sync.WaitGroup
}

// follower copies the output of one run of a container.
type follower struct {
	uid        types.UID
	path, link string
	stop       context.CancelFunc
	done       chan struct{} // closed when it has stopped
	final      bool          // it began after the container ended
}

func (f *follower) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// retryDelay is how long to wait after the output could not be read or written.
// It doubles with each failure, up to mostRetryDelay.
const (
	retryDelay     = time.Second
	mostRetryDelay = time.Minute
)

// Follow begins to copy the output of the containers of a pod that were started, until they end or ctx does.
func (m *Manager) Follow(ctx context.Context, pod *v1.Pod, observed *runtime.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.State == runtime.Created || c.StartErr != "" {
			continue
		}
		// The stream of a container that ended since is read once more, so that nothing of its end is missing.
		known := m.followed[c.ID]
		if m.Files != nil && known != nil && c.State == runtime.Exited {
			known.stop() // its file does not grow any more
			continue
		}
		if known != nil && (known.final || !known.ended()) {
			continue
		}
		m.begin(ctx, pod, c)
	}
}

// begin starts a follower; it is called with the lock held.
func (m *Manager) begin(ctx context.Context, pod *v1.Pod, c *runtime.Container) {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{
		uid: pod.UID, path: m.path(pod, c), stop: stop, done: make(chan struct{}), final: c.State == runtime.Exited,
		link: filepath.Join(m.Links, fmt.Sprintf("%s_%s_%s-%s.log", pod.Name, pod.Namespace, c.Name, c.ID)),
	}
	if m.followed == nil {
		m.followed = map[string]*follower{}
	}
	m.followed[c.ID] = f
	id := c.ID
	m.wait.Go(func() {
		defer close(f.done)
		defer stop()
		m.follow(ctx, f, id)
	})
}

// dirName is the name of a pod's directory.
func dirName(namespace, name string, uid types.UID) string {
	return namespace + "_" + name + "_" + string(uid)
}

func (m *Manager) path(pod *v1.Pod, c *runtime.Container) string {
	return filepath.Join(m.Dir, dirName(pod.Namespace, pod.Name, pod.UID), c.Name, strconv.Itoa(c.Attempt)+".log")
}

// follow copies until the output ends, or ctx does. What fails is tried again, ever more rarely.
func (m *Manager) follow(ctx context.Context, f *follower, id string) {
	for delay := retryDelay; ; delay = min(2*delay, mostRetryDelay) {
		began := m.Clock.Now()
		err := m.copy(ctx, f, id)
		if err == nil || ctx.Err() != nil || errors.Is(err, runtime.ErrNotFound) {
			return
		}
		klog.FromContext(ctx).Error(err, "Log of the container can't be written, will be retried", "containerID", id)
		select {
		case <-ctx.Done():
			return
		case <-m.Clock.After(delay):
		}
		if m.Clock.Since(began) > mostRetryDelay {
			delay = retryDelay // it went well for long
		}
	}
}

func (m *Manager) copy(ctx context.Context, f *follower, id string) error {
	if m.Files != nil {
		return m.keep(ctx, f, id)
	}
	w, err := open(f.path, m.MaxBytes, m.MaxFiles, m.Clock)
	if err != nil {
		return err
	}
	defer w.close()
	if err := link(f.path, f.link); err != nil {
		return err
	}
	stdout, stderr := w.stream("stdout"), w.stream("stderr")
	options := runtime.LogOptions{Follow: true, Timestamps: true, Since: w.resume}
	if err := m.Source.Logs(ctx, id, options, stdout, stderr); err != nil {
		return err // a message that was cut off comes again
	}
	return errors.Join(stdout.end(), stderr.end())
}

// link makes a link to a file, in the place of another.
func link(to, at string) error {
	if present, err := os.Readlink(at); err == nil && present == to {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, at)
}

// Remove deletes the files of a container.
func (m *Manager) Remove(id string) error {
	m.mu.Lock()
	f := m.followed[id]
	delete(m.followed, id)
	m.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.remove()
}

// remove ends the follower and deletes its files.
func (f *follower) remove() error {
	f.stop()
	<-f.done
	files, err := filepath.Glob(f.path + "*") // those that were rotated have other endings
	for _, file := range append(files, f.link) {
		if failed := os.Remove(file); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// RemovePod deletes all files of a pod, also those of containers that an earlier run of the kubelet followed.
func (m *Manager) RemovePod(uid types.UID) error {
	m.mu.Lock()
	var own []*follower
	for id, f := range m.followed {
		if f.uid == uid {
			own = append(own, f)
			delete(m.followed, id)
		}
	}
	m.mu.Unlock()
	var err error
	for _, f := range own {
		err = errors.Join(err, f.remove())
	}
	dirs, failed := filepath.Glob(filepath.Join(m.Dir, dirName("*", "*", uid)))
	err = errors.Join(err, failed)
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return errors.Join(err, m.unlink(dirs))
}

// unlink deletes the links into directories.
func (m *Manager) unlink(dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	entries, err := os.ReadDir(m.Links)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		at := filepath.Join(m.Links, entry.Name())
		to, failed := os.Readlink(at)
		for _, dir := range dirs {
			if failed == nil && filepath.Dir(filepath.Dir(to)) == dir {
				err = errors.Join(err, os.Remove(at))
			}
		}
	}
	return err
}

// Wait returns when all copying ended, which it does with the context of Follow.
func (m *Manager) Wait() { m.wait.Wait() }
