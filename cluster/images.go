package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"quintet.dev/quintet/cluster/internal/backend"
)

// WithLoadedImages copies images of the local Docker engine to every node before Start returns. Hollow nodes have every
// image.
func WithLoadedImages(refs ...string) Option {
	return func(c *config) error {
		for _, ref := range refs {
			if ref == "" {
				return errors.New("loaded images: one of them is empty")
			}
		}
		c.loaded = append(c.loaded, refs...)
		return nil
	}
}

// WithImageArchives copies the images in archives of `docker save` to every node before Start returns. Hollow nodes
// have every image.
func WithImageArchives(files ...string) Option {
	return func(c *config) error {
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("image archive: %w", err)
			}
		}
		c.archives = append(c.archives, files...)
		return nil
	}
}

// checkImages refuses images for no node.
func (c *config) checkImages() error {
	if len(c.loaded)+len(c.archives) > 0 && !c.runs(Node) {
		return errors.New("loaded images: the cluster has no node")
	}
	return nil
}

// loadImages carries out WithLoadedImages and WithImageArchives for some of the nodes.
func (c *Cluster) loadImages(ctx context.Context, machines []backend.Instance) error {
	return c.loadInto(ctx, c.config, machines)
}

func (c *Cluster) loadInto(ctx context.Context, config *config, machines []backend.Instance) error {
	for _, ref := range config.loaded {
		if err := c.backend.Load(ctx, ref, machines); err != nil {
			return err
		}
	}
	for _, file := range config.archives {
		if err := c.backend.LoadArchive(ctx, file, machines); err != nil {
			return err
		}
	}
	return nil
}

// LoadImage copies an image of the local Docker engine to every node.
func (c *Cluster) LoadImage(ctx context.Context, ref string) error {
	machines := c.machines()
	if len(machines) == 0 {
		return fmt.Errorf("load image %s: cluster %s has no node", ref, c.config.name)
	}
	return c.backend.Load(ctx, ref, machines)
}

// LoadArchive copies the images in an archive of `docker save` to every node.
func (c *Cluster) LoadArchive(ctx context.Context, file string) error {
	machines := c.machines()
	if len(machines) == 0 {
		return fmt.Errorf("load archive %s: cluster %s has no node", file, c.config.name)
	}
	return c.backend.LoadArchive(ctx, file, machines)
}

// machines are the instances of all nodes.
func (c *Cluster) machines() []backend.Instance {
	var machines []backend.Instance
	for _, m := range c.Component(Node).Members {
		machines = append(machines, m.instance)
	}
	return machines
}
