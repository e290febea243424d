// Package pluginwatcher finds plug-ins of the node by the sockets in a directory and registers them
// (https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#plugin-registration and
// k8s.io/kubelet/pkg/apis/pluginregistration).
package pluginwatcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"
)

const (
	// period is how often the directory is read without a notice of a change.
	period = time.Second
	// callTimeout bounds each call of a plug-in's registration service.
	callTimeout = 10 * time.Second
	maxBackoff  = 2 * time.Minute
)

// Plugin is what a plug-in tells of itself.
type Plugin struct {
	Name, Endpoint string
	Versions       []string
}

// Handler takes in plug-ins of one type.
type Handler interface {
	// Register takes in a plug-in, or tells why it can't; it is tried again then.
	Register(ctx context.Context, plugin Plugin) error
	// Deregister drops a plug-in whose socket is gone.
	Deregister(ctx context.Context, plugin Plugin)
}

// Watcher registers the plug-ins of one directory. Run's goroutine owns it.
type Watcher struct {
	Dir      string
	Handlers map[string]Handler // by type, such as "CSIPlugin"
	Clock    clock.WithTicker

	sockets map[string]*socket
}

// socket is a socket of the directory. It counts as another one once it was made again.
type socket struct {
	made       time.Time
	registered bool
	kind       string
	plugin     Plugin
	failures   int
	retryAt    time.Time
}

// Run makes the directory and registers what appears in it, until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	w.sockets = map[string]*socket{}
	if err := os.MkdirAll(w.Dir, 0o750); err != nil {
		klog.FromContext(ctx).Error(err, "Directory of plug-in sockets can't be made: no plug-in is registered")
		return
	}
	changes := make(chan fsnotify.Event) // never ready where the directory can't be watched
	if notifier, err := fsnotify.NewWatcher(); err == nil {
		defer notifier.Close()
		if err := notifier.Add(w.Dir); err == nil {
			changes = notifier.Events
		}
	}
	ticker := w.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		w.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-ticker.C():
		}
	}
}

// reconcile compares the directory with what is registered.
func (w *Watcher) reconcile(ctx context.Context) {
	found := map[string]time.Time{}
	err := filepath.WalkDir(w.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSocket == 0 || filepath.Base(path)[0] == '.' {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := entry.Info(); err == nil {
			found[path] = info.ModTime()
		}
		return nil
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Directory of plug-in sockets can't be read, will be retried")
		return
	}
	for path, s := range w.sockets {
		if made, ok := found[path]; ok && made.Equal(s.made) {
			continue
		}
		if s.registered {
			w.Handlers[s.kind].Deregister(ctx, s.plugin)
		}
		delete(w.sockets, path)
	}
	for path, made := range found {
		s := w.sockets[path]
		if s == nil {
			s = &socket{made: made}
			w.sockets[path] = s
		}
		if !s.registered && !w.Clock.Now().Before(s.retryAt) {
			w.try(ctx, path, s)
		}
	}
}

func (w *Watcher) try(ctx context.Context, path string, s *socket) {
	err := w.register(ctx, path, s)
	if err == nil {
		s.registered = true
		klog.FromContext(ctx).Info("Plug-in was registered", "type", s.kind, "name", s.plugin.Name, "socket", path)
		return
	}
	s.failures++
	s.retryAt = w.Clock.Now().Add(min(500*time.Millisecond<<min(s.failures-1, 10), maxBackoff))
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Plug-in can't be registered, will be retried", "socket", path)
	}
}

// register asks a plug-in for its name and tells it what came of its registration.
func (w *Watcher) register(ctx context.Context, path string, s *socket) error {
	conn, err := Dial(path)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := client.GetInfo(asking, &registerapi.InfoRequest{})
	if err != nil {
		return fmt.Errorf("failed to get plugin info using RPC GetInfo at socket %s, err: %w", path, err)
	}
	s.kind = info.Type
	s.plugin = Plugin{Name: info.Name, Endpoint: info.Endpoint, Versions: info.SupportedVersions}
	if s.plugin.Endpoint == "" {
		s.plugin.Endpoint = path
	}
	handler := w.Handlers[info.Type]
	if handler == nil {
		err = fmt.Errorf("no handler registered for plugin type: %s at socket %s", info.Type, path)
	} else {
		err = handler.Register(ctx, s.plugin)
	}
	status := &registerapi.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		status.Error = err.Error()
	}
	telling, cancelTelling := context.WithTimeout(ctx, callTimeout)
	defer cancelTelling()
	if _, notifyErr := client.NotifyRegistrationStatus(telling, status); notifyErr != nil && err == nil {
		handler.Deregister(ctx, s.plugin)
		return fmt.Errorf("failed to send registration status at socket %s, err: %w", path, notifyErr)
	}
	return err
}
