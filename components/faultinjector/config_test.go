package faultinjector

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNewNamesWhatIsWrong(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"no fault":            func(*Config) {},
		"--cut=x":             func(c *Config) { c.Cut = []string{"x"} },
		"--cut-hardware=1":    func(c *Config) { c.CutHardware = []string{"1"} },
		"--loss=1.5":          func(c *Config) { c.Loss = 1.5 },
		"--delay=1s --jitter": func(c *Config) { c.Delay, c.Jitter = time.Second, time.Minute },
		"--disk-free=-1":      func(c *Config) { c.FillDir, c.DiskFree = "/x", -1 },
	} {
		c := NewConfig()
		set(c)
		if _, err := New(*c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestFill fills a small disk up to what is to be free, and gives it back.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("no disk of its own:", err)
	}
	defer func() { _ = unix.Unmount(dir, 0) }()
	remove, err := fill(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/small", make([]byte, 1<<19), 0o600); err != nil {
		t.Errorf("what is free: %v", err)
	}
	if err := os.WriteFile(dir+"/large", make([]byte, 1<<20), 0o600); err == nil {
		t.Error("the disk is not full")
	}
	remove()
	if err := os.WriteFile(dir+"/large", make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}
