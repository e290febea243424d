package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWriteChangedFullDisk: where a disk has no space for the new content, no less of a file is left than there was.
func TestWriteChangedFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Skip("a small file system takes root: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "hosts")
	for _, text := range []string{"longer than the next", "short"} {
		if err := writeChanged(path, text); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := writeChanged(path, strings.Repeat("x", 3*os.Getpagesize())); err == nil {
		t.Error("more than the disk has is no error")
	}
	if info, err := os.Stat(path); err != nil || info.Size() < int64(len("short")) {
		t.Errorf("after a failure: %v, %v", info, err)
	}
	if err := writeChanged(path, "again"); err != nil {
		t.Error(err)
	}
}
