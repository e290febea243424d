package clockfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestClockWithoutFile(t *testing.T) {
	t.Setenv(Env, "")
	if off := time.Until(Clock(t.Context(), "p").Now()); off.Abs() > time.Minute {
		t.Errorf("off by %v", off)
	}
}

// TestClock: the clock follows the file from before it is made, and says so; what is no duration changes nothing.
func TestClock(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Env, dir)
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, Offset), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	applied := func() string {
		content, _ := os.ReadFile(filepath.Join(dir, Applied("p")))
		return string(content)
	}
	write("-90m\n")
	c := Clock(t.Context(), "p")
	off := func() time.Duration { return time.Until(c.Now()).Round(time.Minute) }
	if off() != -90*time.Minute || applied() != "-1h30m0s\n" {
		t.Fatalf("off by %v, says %q", off(), applied())
	}
	for _, step := range []struct {
		content string
		want    time.Duration
	}{{"48h", 48 * time.Hour}, {"soon", 48 * time.Hour}, {string(Format(0)), 0}} {
		write(step.content)
		if step.content == "soon" {
			time.Sleep(3 * Every) // so that it is read
		}
		said := time.Duration(-1)
		for end := time.Now().Add(20 * Every); said != step.want && time.Now().Before(end); time.Sleep(Every / 10) {
			said, _ = Parse([]byte(applied()))
		}
		if off() != step.want || said != step.want {
			t.Errorf("%q: off by %v, says %v", step.content, off(), said)
		}
	}
}
