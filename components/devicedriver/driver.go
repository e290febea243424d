package devicedriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quintet.dev/quintet/internal/calllog"
)

// Driver offers the devices of one node.
type Driver struct {
	config    *Config
	client    kubernetes.Interface
	inventory *inventory
}

// New checks the configuration.
func New(config Config) (*Driver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	client, err := config.client()
	if err != nil {
		return nil, err
	}
	if config.CallLog == "" {
		config.CallLog = filepath.Join(config.Root, "calls.jsonl")
	}
	if err := os.MkdirAll(config.Root, 0o755); err != nil {
		return nil, fmt.Errorf("--root-dir: %w", err)
	}
	return &Driver{config: &config, client: client, inventory: newInventory()}, nil
}

// registrationDir is where the kubelet looks for plug-ins.
func (c *Config) registrationDir() string { return filepath.Join(c.KubeletDir, "plugins_registry") }

// pluginDir is the directory of a plug-in's socket.
func (c *Config) pluginDir(name string) string {
	return filepath.Join(c.KubeletDir, "plugins", filepath.FromSlash(name))
}

// Run serves until ctx ends. Containers keep their devices, and claims stay prepared.
func (d *Driver) Run(ctx context.Context) error {
	calls, err := calllog.Open(d.config.CallLog, d.config.Clock, nil)
	if err != nil {
		return err
	}
	defer calls.Close()
	group, ctx := errgroup.WithContext(ctx)
	known := make(chan struct{}) // closed once the health of devices is known
	group.Go(func() error { return d.followHealth(ctx, known) })
	if d.config.Devices > 0 {
		group.Go(func() error { return d.servePlugin(ctx, known, calls) })
	}
	if d.config.ClaimDevices > 0 {
		dra := &draDriver{config: d.config, inventory: d.inventory, claims: &claims{d.config}}
		group.Go(func() error {
			if !wait(ctx, known) {
				return nil
			}
			return dra.run(ctx, d.client, calls)
		})
	}
	return group.Wait()
}

// wait waits for a channel, and reports whether that was before ctx ended.
func wait(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// followHealth takes over what the annotation of the node says, until ctx ends. It closes known with the first.
func (d *Driver) followHealth(ctx context.Context, known chan<- struct{}) error {
	take := func(object any) {
		if node, ok := object.(*v1.Node); ok {
			d.inventory.set(parseUnhealthy(node.Annotations[UnhealthyAnnotation]))
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(d.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, d.config.NodeName).String()
		}))
	registered, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, object any) { take(object) },
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		close(known)
	}
	<-ctx.Done()
	return nil
}

// servePlugin serves the device plug-in and its registration until ctx ends.
func (d *Driver) servePlugin(ctx context.Context, known <-chan struct{}, calls *calllog.Log) error {
	if !wait(ctx, known) {
		return nil
	}
	p := &plugin{config: d.config, inventory: d.inventory}
	if err := p.prepare(); err != nil {
		return err
	}
	endpoint := filepath.Join(d.config.pluginDir(d.config.ResourceName), "device-plugin.sock")
	services := grpc.NewServer(grpc.UnaryInterceptor(calls.Unary), grpc.StreamInterceptor(calls.Stream))
	pluginapi.RegisterDevicePluginServer(services, p)
	registrar := grpc.NewServer(grpc.UnaryInterceptor(calls.Unary))
	registerapi.RegisterRegistrationServer(registrar, &registration{resource: d.config.ResourceName, endpoint: endpoint})
	group, ctx := errgroup.WithContext(ctx)
	if err := serve(ctx, group, services, endpoint); err != nil {
		return fmt.Errorf("--kubelet-dir: %w", err)
	}
	path := filepath.Join(d.config.registrationDir(), fileOf(d.config.ResourceName)+"-reg.sock")
	if err := serve(ctx, group, registrar, path); err != nil { // the kubelet calls back at once
		services.Stop()
		return errors.Join(fmt.Errorf("--kubelet-dir: %w", err), group.Wait())
	}
	return group.Wait()
}

// serve listens on path and serves until ctx ends. A socket that a killed driver left is replaced.
func serve(ctx context.Context, group *errgroup.Group, server *grpc.Server, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, server.Stop) // streams have no end of their own
	group.Go(func() error {
		defer stop()
		if err := server.Serve(listener); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return nil
}
