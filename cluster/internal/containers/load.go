package containers

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Load saves an image of the local engine once and loads it into the engine of every machine.
func (c *Containers) Load(ctx context.Context, ref string, machines []backend.Instance) error {
	if _, err := c.docker.ImageInspect(ctx, ref); errdefs.IsNotFound(err) {
		return fmt.Errorf("the Docker engine has no image %s: build or pull it first (Quintet's own: quintet images build)",
			ref)
	} else if err != nil {
		return err
	}
	saved, err := c.docker.ImageSave(ctx, []string{ref})
	if err != nil {
		return fmt.Errorf("save image %s: %w", ref, err)
	}
	defer saved.Close()
	spool, err := os.CreateTemp("", "quintet-image-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	if _, err := io.Copy(spool, saved); err != nil {
		return fmt.Errorf("save image %s: %w", ref, err)
	}
	return load(ctx, "image "+ref, spool, machines)
}

// LoadArchive loads an archive into the engine of every machine.
func (c *Containers) LoadArchive(ctx context.Context, file string, machines []backend.Instance) error {
	archive, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("image archive: %w", err)
	}
	defer archive.Close()
	return load(ctx, "archive "+file, archive, machines)
}

func load(ctx context.Context, what string, archive *os.File, machines []backend.Instance) error {
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, machine := range machines {
		group.Go(func() error {
			result, err := machine.Exec(ctx, []string{"node-init", "load"}, io.NewSectionReader(archive, 0, info.Size()))
			if err != nil {
				return err
			}
			if result.Code != 0 {
				return fmt.Errorf("load %s on %s: %s", what, machine.Name(), result.Stderr)
			}
			return nil
		})
	}
	return group.Wait()
}
