package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a process looks whether another one has built what it waits for.
const lockPoll = 100 * time.Millisecond

// cacheDir makes the folder of a source below the user's folder for caches ($XDG_CACHE_HOME/quintet).
func cacheDir(s Source, server target) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep programs: %w", err)
	}
	dir := filepath.Join(base, "quintet", s.id()+"-"+server.os+"-"+server.arch)
	return dir, os.MkdirAll(dir, 0o755)
}

// exclusively runs do while it holds the lock of a file. The lock is released when the process ends.
func exclusively(ctx context.Context, path string, do func() error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // which unlocks it
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process builds images (%s): %w", path, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
