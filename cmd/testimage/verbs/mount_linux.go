package verbs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mountMemory(args []string, _ Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: mount DIR")
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return 1, err
	}
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=64k"); err != nil {
		return 1, fmt.Errorf("mount on %s: %w", args[0], err)
	}
	return 0, nil
}

func unmount(args []string, _ Streams) (int, error) {
	for _, dir := range args {
		if err := unix.Unmount(dir, 0); err != nil {
			return 1, fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
	return 0, nil
}
