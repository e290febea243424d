package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
)

// recordFile is where API servers in containers keep what a process that did not start the cluster must know of it to
// add nodes.
const recordFile = "cluster.json"

// record is the part of a config that makes a node.
type record struct {
	Nodes      int                    `json:"nodes"`
	APIServers int                    `json:"apiServers"`
	Etcds      int                    `json:"etcds"`
	Schedulers int                    `json:"schedulers"`
	Managers   int                    `json:"managers"`
	IPFamily   IPFamily               `json:"ipFamily"`
	Images     map[Component]string   `json:"images,omitempty"`
	Built      map[Component]string   `json:"built,omitempty"`
	Args       map[Component][]string `json:"args,omitempty"`
	Without    map[Component]bool     `json:"without,omitempty"`
	Files      map[string][]byte      `json:"files,omitempty"` // of nodes
	Loaded     []string               `json:"loaded,omitempty"`
	CSI        bool                   `json:"csi,omitempty"`
	Metrics    bool                   `json:"metrics,omitempty"`
	Devices    bool                   `json:"devices,omitempty"`
	Registry   bool                   `json:"registry,omitempty"`
	Mirrors    []string               `json:"mirrors,omitempty"`
	Insecure   []string               `json:"insecure,omitempty"`
	Runtime    Runtime                `json:"runtime,omitempty"`
	Resources  backend.Resources      `json:"resources,omitzero"`
	NodeDisk   int64                  `json:"nodeDisk,omitempty"` // bytes
	// Shutdown and ShutdownCritical are the periods of a graceful shutdown, in nanoseconds.
	Shutdown         time.Duration `json:"shutdown,omitempty"`
	ShutdownCritical time.Duration `json:"shutdownCritical,omitempty"`
}

func (c *config) record() ([]byte, error) {
	nodes := c.nodes
	if c.hollow() {
		nodes = 0 // no other process can add one
	}
	return json.MarshalIndent(record{
		Nodes: nodes, APIServers: c.apiservers, Etcds: c.etcds, Schedulers: c.schedulers, Managers: c.managers,
		Metrics: c.metrics, IPFamily: c.family, Images: c.images, Built: c.built, Args: c.args, Without: c.without,
		Files: c.files[Node], Loaded: c.loaded, CSI: c.csi, Devices: c.devices,
		Registry: c.registry, Mirrors: c.mirrors, Insecure: c.insecure, Runtime: c.runtime,
		Resources: c.nodeResources, NodeDisk: c.nodeDisk,
		Shutdown: c.shutdown.total, ShutdownCritical: c.shutdown.critical,
	}, "", "  ")
}

// configOf reads the record of a cluster that runs.
func configOf(ctx context.Context, name string, server *Member) (*config, error) {
	content, err := server.instance.ReadFile(ctx, recordFile)
	if err != nil {
		return nil, err
	}
	c, err := readRecord(name, content)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", recordFile, server.name, err)
	}
	return c, nil
}

// readRecord makes the config of a cluster of that name from a record.
func readRecord(name string, content []byte) (*config, error) {
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, err
	}
	c := newConfig(name)
	c.etcds, c.schedulers, c.managers, c.metrics = r.Etcds, r.Schedulers, r.Managers, r.Metrics
	c.nodes, c.apiservers, c.family, c.loaded = r.Nodes, r.APIServers, r.IPFamily, r.Loaded
	c.csi, c.devices, c.registry, c.mirrors, c.insecure = r.CSI, r.Devices, r.Registry, r.Mirrors, r.Insecure
	c.runtime, c.nodeDisk = r.Runtime, r.NodeDisk
	c.nodeResources, c.shutdown = r.Resources, shutdownPeriods{total: r.Shutdown, critical: r.ShutdownCritical}
	for component, image := range r.Images {
		c.images[component] = image
	}
	for component, image := range r.Built {
		c.built[component] = image
	}
	for component, args := range r.Args {
		c.args[component] = args
	}
	for component, without := range r.Without {
		c.without[component] = without
	}
	c.files[Node] = r.Files
	return c, nil
}
