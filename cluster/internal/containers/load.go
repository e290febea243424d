package containers

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Load saves an image of the local engine once and loads it into the engine of every machine.
func (c *Containers) Load(ctx context.Context, ref string, machines []backend.Instance) error {
	if err := c.imageMissing(ctx, ref); err != nil {
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
	size, err := io.Copy(spool, saved)
	if err != nil {
		return fmt.Errorf("save image %s: %w", ref, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, machine := range machines {
		group.Go(func() error {
			result, err := machine.Exec(ctx, []string{"docker", "load", "--quiet"}, io.NewSectionReader(spool, 0, size))
			if err != nil {
				return err
			}
			if result.Code != 0 {
				return fmt.Errorf("load image %s on %s: %s", ref, machine.Name(), result.Stderr)
			}
			return nil
		})
	}
	return group.Wait()
}
