package verbs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

func message(args []string, _ Streams) (int, error) {
	plain, opts, err := options(args, "file")
	if err != nil {
		return 2, err
	}
	if len(plain) != 1 {
		return 2, fmt.Errorf("usage: message TEXT [--file=FILE]")
	}
	file := opts["file"]
	if file == "" {
		file = "/dev/termination-log"
	}
	return 0, os.WriteFile(file, []byte(plain[0]), 0o666)
}

func write(args []string, _ Streams) (int, error) {
	if len(args) != 2 {
		return 2, fmt.Errorf("usage: write FILE TEXT")
	}
	if err := writeFile(args[0], []byte(args[1])); err != nil {
		return 1, err
	}
	return 0, nil
}

// fill writes a file of so many MiB, each on the disk before the next.
func fill(args []string, _ Streams) (code int, err error) {
	if len(args) != 2 {
		return 2, errors.New("usage: fill FILE MIB")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil || size < 0 {
		return 2, fmt.Errorf("fill FILE MIB: %s is no size", args[1])
	}
	file, err := os.Create(args[0])
	if err != nil {
		return 1, err
	}
	defer func() {
		if closing := file.Close(); err == nil && closing != nil {
			code, err = 1, closing
		}
	}()
	zeros := make([]byte, 1<<20)
	for range size {
		if _, err := file.Write(zeros); err != nil {
			return 1, err
		}
		if err := file.Sync(); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

// writeFile writes a file that exists in place, which may be a device or a mount; a new one appears with its contents,
// so that a process that waits for it, or reads a directory of manifests, never reads it empty.
func writeFile(name string, contents []byte) error {
	if _, err := os.Lstat(name); err == nil {
		return os.WriteFile(name, contents, 0o666)
	}
	partial := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d", filepath.Base(name), os.Getpid()))
	if err := os.WriteFile(partial, contents, 0o666); err != nil {
		return err
	}
	if err := os.Rename(partial, name); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return nil
}

func appendTo(args []string, _ Streams) (int, error) {
	if len(args) != 2 {
		return 2, fmt.Errorf("usage: append FILE TEXT")
	}
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return 1, err
	}
	if _, err := io.WriteString(file, args[1]+"\n"); err != nil {
		_ = file.Close()
		return 1, err
	}
	return 0, file.Close()
}

func remove(args []string, _ Streams) (int, error) {
	for _, name := range args {
		if err := os.Remove(name); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

func cat(args []string, s Streams) (int, error) {
	if len(args) == 0 {
		_, err := io.Copy(s.Out, s.In)
		return 0, err
	}
	for _, name := range args {
		content, err := os.ReadFile(name)
		if err != nil {
			return 1, err
		}
		if _, err := s.Out.Write(content); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

func list(args []string, s Streams) (int, error) {
	for _, dir := range args {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return 1, err
		}
		for _, entry := range entries {
			name := entry.Name()
			if entry.IsDir() {
				name += "/"
			}
			fmt.Fprintln(s.Out, name)
		}
	}
	return 0, nil
}

func stat(args []string, s Streams) (int, error) {
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil {
			return 1, err
		}
		kind := "file"
		switch {
		case info.IsDir():
			kind = "dir"
		case info.Mode()&os.ModeSocket != 0:
			kind = "socket"
		case !info.Mode().IsRegular():
			kind = "other"
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 1, fmt.Errorf("no owner known for %s", name)
		}
		mode := owner.Mode & 0o7777
		fmt.Fprintf(s.Out, "%s %s %04o %d %d %d\n", name, kind, mode, owner.Uid, owner.Gid, info.Size())
	}
	return 0, nil
}

// waitFile polls, because a file may appear on any kind of volume.
func waitFile(args []string, _ Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: wait FILE")
	}
	ctx, stop := untilTerminated()
	defer stop()
	for {
		if _, err := os.Stat(args[0]); err == nil {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return 143, nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func writeSorted(out io.Writer, lines []string) error {
	lines = slices.Sorted(slices.Values(lines))
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
