package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
	"quintet.dev/quintet/internal/resources"
)

const (
	// socketName is the name of the registration socket.
	socketName = "kubelet.sock"
	// optionsTimeout bounds the question for the options of a plug-in.
	optionsTimeout = 10 * time.Second
)

// Run serves the registration socket until ctx ends. Sockets that are there already are removed: plug-ins register
// again when the kubelet's appears.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		m.mu.Lock()
		m.ctx = nil // no plug-in is taken in any more
		m.mu.Unlock()
		cancel()
		m.wait.Wait()
	}()
	listener, err := m.listen()
	if err != nil {
		return fmt.Errorf("registration socket of device plugins: %w", err)
	}
	m.mu.Lock()
	m.ctx = ctx
	m.save()
	m.mu.Unlock()
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, &registration{m: m})
	m.wait.Go(func() {
		<-ctx.Done()
		server.Stop()
	})
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// listen clears the directory and makes the socket.
func (m *Manager) listen() (net.Listener, error) {
	if err := os.MkdirAll(m.Dir, 0o750); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == checkpointName {
			continue
		}
		if err := os.Remove(filepath.Join(m.Dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return net.Listen("unix", filepath.Join(m.Dir, socketName))
}

// registration serves the registration socket.
type registration struct {
	pluginapi.UnimplementedRegistrationServer
	m *Manager
}

// Register takes in a plug-in; its devices come by and by.
func (r *registration) Register(ctx context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if err := validate(request.ResourceName, []string{request.Version}); err != nil {
		klog.FromContext(ctx).Error(err, "Device plug-in is refused", "resource", request.ResourceName)
		return nil, err
	}
	socket := filepath.Join(r.m.Dir, filepath.Base(request.Endpoint))
	e, err := dial(request.ResourceName, socket, request.Options)
	if err != nil {
		return nil, err
	}
	if err := r.m.add(e); err != nil {
		return nil, err
	}
	return &pluginapi.Empty{}, nil
}

// validate checks the name and the versions of a plug-in.
func validate(name string, versions []string) error {
	if !slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(pluginapi.SupportedVersions[:], v) }) {
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported versions are %q",
			versions, pluginapi.SupportedVersions)
	}
	if !resources.Extended(v1.ResourceName(name)) {
		return fmt.Errorf("the ResourceName %q is invalid", name)
	}
	return nil
}

// Handler registers plug-ins that the plug-in watcher finds.
type Handler struct{ Manager *Manager }

var _ pluginwatcher.Handler = Handler{}

// Register implements pluginwatcher.Handler.
func (h Handler) Register(ctx context.Context, p pluginwatcher.Plugin) error {
	if err := validate(p.Name, p.Versions); err != nil {
		return err
	}
	e, err := dial(p.Name, p.Endpoint, nil)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, optionsTimeout)
	defer cancel()
	if e.options, err = e.client.GetDevicePluginOptions(asking, &pluginapi.Empty{}); err != nil {
		_ = e.conn.Close()
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	return h.Manager.add(e)
}

// Deregister implements pluginwatcher.Handler. A plug-in that has taken the place of this one, with another socket,
// stays.
func (h Handler) Deregister(_ context.Context, p pluginwatcher.Plugin) {
	h.Manager.mu.Lock()
	defer h.Manager.mu.Unlock()
	if r := h.Manager.resources[p.Name]; r != nil && r.endpoint != nil &&
		r.endpoint.socket == p.Endpoint {
		r.endpoint.stop()
	}
}
