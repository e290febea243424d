// Package csi makes volumes by drivers of the Container Storage Interface
// (https://github.com/container-storage-interface/spec/blob/master/spec.md and
// https://kubernetes-csi.github.io/docs/). Drivers register through the kubelet's directory of sockets. What the
// plug-in has to know to undo its work is on the disk, where upstream's kubelet has it: it works across restarts.
package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

// callTimeout bounds each call of a driver, as upstream's.
const callTimeout = 2 * time.Minute

// Drivers are the drivers that are registered on a node. They are safe for concurrent use.
type Drivers struct {
	// Publish writes what a driver tells of the node into the API; Withdraw removes it.
	Publish  func(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error
	Withdraw func(ctx context.Context, driver string) error
	// DialOptions are those of connections to drivers, beside the kubelet's own. Tests see and hold calls with them.
	DialOptions []grpc.DialOption

	mu        sync.Mutex
	endpoints map[string]string // by name of the driver
}

// Register implements pluginwatcher.Handler.
func (d *Drivers) Register(ctx context.Context, plugin pluginwatcher.Plugin) error {
	if err := supported(plugin.Versions); err != nil {
		return fmt.Errorf("kubernetes.io/csi: validation of driver %s at %s failed: %w", plugin.Name, plugin.Endpoint, err)
	}
	client, err := d.dial(plugin.Endpoint)
	if err != nil {
		return err
	}
	defer client.close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := client.node.NodeGetInfo(ctx, &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: NodeGetInfo of driver %s failed: %w", plugin.Name, err)
	}
	d.mu.Lock()
	if d.endpoints == nil {
		d.endpoints = map[string]string{}
	}
	d.endpoints[plugin.Name] = plugin.Endpoint
	d.mu.Unlock()
	if err := d.Publish(ctx, plugin.Name, info); err != nil {
		d.forget(plugin)
		return fmt.Errorf("kubernetes.io/csi: failed to update the node's objects for driver %s: %w", plugin.Name, err)
	}
	return nil
}

// supported tells whether a driver speaks a version of CSI that the kubelet does: any of 1.x.
func supported(versions []string) error {
	for _, text := range versions {
		if version, err := utilversion.ParseGeneric(text); err == nil && version.Major() == 1 {
			return nil
		}
	}
	return fmt.Errorf("none of the CSI versions reported by the driver %v are supported", versions)
}

// Deregister implements pluginwatcher.Handler.
func (d *Drivers) Deregister(ctx context.Context, plugin pluginwatcher.Plugin) {
	if d.forget(plugin) {
		_ = d.Withdraw(ctx, plugin.Name) // it logs and the next registration writes it again
	}
}

// forget drops a driver unless it was registered with another socket meanwhile.
func (d *Drivers) forget(plugin pluginwatcher.Plugin) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endpoints[plugin.Name] != plugin.Endpoint {
		return false
	}
	delete(d.endpoints, plugin.Name)
	return true
}

// client is a connection to a driver.
type client struct {
	conn *grpc.ClientConn
	node csispec.NodeClient
}

func (d *Drivers) dial(endpoint string) (*client, error) {
	conn, err := pluginwatcher.Dial(endpoint, d.DialOptions...)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, node: csispec.NewNodeClient(conn)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// connect opens a connection to a driver that is registered. The caller closes it.
func (d *Drivers) connect(name string) (*client, error) {
	d.mu.Lock()
	endpoint, ok := d.endpoints[name]
	d.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
	}
	return d.dial(endpoint)
}

// abilities are what a driver can do on a node.
type abilities map[csispec.NodeServiceCapability_RPC_Type]bool

func (c *client) abilities(ctx context.Context) (abilities, error) {
	answer, err := c.node.NodeGetCapabilities(ctx, &csispec.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	found := abilities{}
	for _, capability := range answer.GetCapabilities() {
		if rpc := capability.GetRpc(); rpc != nil {
			found[rpc.GetType()] = true
		}
	}
	return found, nil
}
