package logs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// rotatePeriod is how often the length of files is looked at that the engine writes, as upstream's kubelet does.
const rotatePeriod = 10 * time.Second

// keep links the file of a container that the engine writes, and rotates it while the container runs.
func (m *Manager) keep(ctx context.Context, f *follower, id string) error {
	if err := link(f.path, f.link); err != nil || f.final {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.Clock.After(rotatePeriod):
		}
		if err := m.rotate(ctx, f.path, id); err != nil {
			return err
		}
	}
}

// rotate gives a file that is too long another name and has the engine begin a new one. If the engine does not, the
// file gets its name back, as it would go on writing there.
func (m *Manager) rotate(ctx context.Context, path, id string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) { // there is no output yet, or a rotation was interrupted
		return m.Files.ReopenLog(ctx, id)
	}
	if err != nil || info.Size() < m.MaxBytes {
		return err
	}
	w := &writer{path: path, maxFiles: m.MaxFiles, clock: m.Clock}
	name, err := w.putAside()
	if err != nil || name == "" {
		return err
	}
	if err := m.Files.ReopenLog(ctx, id); err != nil {
		return errors.Join(err, os.Rename(name, path))
	}
	return w.tidy()
}
