package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/internal/calllog"
	"quintet.dev/quintet/internal/release"
)

// Driver serves CSI on one node.
type Driver struct {
	config *Config
	server *server
	client kubernetes.Interface // nil without --provision, --attach and --resize
}

// New checks the configuration, and takes in what an earlier run left on the disk.
func New(config Config) (*Driver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	d := &Driver{config: &config}
	var err error
	if config.Provision || config.Attach || config.Resize {
		if d.client, err = config.client(); err != nil {
			return nil, err
		}
	}
	if config.CallLog == "" {
		config.CallLog = filepath.Join(config.Root, "calls.jsonl")
	}
	if d.server, err = newServer(&config); err != nil {
		return nil, fmt.Errorf("--root-dir: %w", err)
	}
	return d, nil
}

// Run serves until ctx ends. Volumes stay staged and published then.
func (d *Driver) Run(ctx context.Context) error {
	calls, err := calllog.Open(d.config.CallLog, d.config.Clock, withoutSecrets)
	if err != nil {
		return err
	}
	defer calls.Close()
	services := grpc.NewServer(grpc.UnaryInterceptor(calls.Unary))
	csi.RegisterIdentityServer(services, &identity{name: d.config.DriverName, version: release.Get().GitVersion})
	csi.RegisterControllerServer(services, &controller{server: d.server})
	csi.RegisterNodeServer(services, &node{server: d.server})
	group, ctx := errgroup.WithContext(ctx)
	if err := serve(ctx, group, services, d.config.Endpoint); err != nil {
		return fmt.Errorf("--csi-endpoint: %w", err)
	}
	if d.config.Registration != "" { // the kubelet calls back at once
		registration, path := d.config.registrationServer()
		if err := serve(ctx, group, registration, path); err != nil {
			return errors.Join(fmt.Errorf("--registration-dir: %w", err), stopped(services, group))
		}
	}
	if d.client != nil {
		conn, err := grpc.NewClient("unix://"+d.config.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return errors.Join(err, stopped(services, group))
		}
		defer conn.Close()
		group.Go(func() error { return d.runControllers(ctx, csi.NewControllerClient(conn)) })
	}
	return group.Wait()
}

// stopped ends what a failed start has begun.
func stopped(server *grpc.Server, group *errgroup.Group) error {
	server.Stop()
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
	stop := context.AfterFunc(ctx, server.GracefulStop)
	group.Go(func() error {
		defer stop()
		return server.Serve(listener)
	})
	return nil
}
