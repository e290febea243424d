package footprint

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		live, roots uint64
		since       time.Duration
		want        int
	}{
		{0, 0, time.Minute, 1200},
		{12 << 20, 0, time.Minute, 100},
		{10 << 20, 2 << 20, time.Minute, 100},
		{12 << 20, 0, time.Second, 560},
		{12 << 20, 11 << 20, time.Second, 290},
		{50 << 20, 0, time.Second, 80},
		{60 << 20, 0, time.Second, 80},
		{60 << 20, 0, time.Minute, 50},
		{90 << 20, 0, time.Second, 100},
		{200 << 20, 0, time.Second, 100},
		{1 << 30, 0, time.Millisecond, 100},
		{1 << 30, 0, time.Minute, 50},
	} {
		if got := percentFor(c.live, c.roots, c.since); got != c.want {
			t.Errorf("%d bytes alive after %v: %d %%, want %d", c.live, c.since, got, c.want)
		}
	}
}

// TestTrim runs on with the pages that it has given back.
func TestTrim(t *testing.T) {
	Trim()
	if got := strings.ToUpper("still here"); got != "STILL HERE" {
		t.Error(got)
	}
}

func TestFix(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "70")
	Fix(40)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d %%: the environment's pace was taken over", got)
	}
	t.Setenv("GOGC", "")
	Fix(40)
	if got := debug.SetGCPercent(100); got != 40 {
		t.Errorf("%d %%, want 40", got)
	}
}

func TestBound(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "1TiB")
	Bound()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("%d bytes: the environment's bound was taken over", got)
	}
	t.Setenv("GOMEMLIMIT", "")
	Bound()
	if got := debug.SetMemoryLimit(-1); got != int64(machineMemory()/2) {
		t.Errorf("%d bytes of %d", got, machineMemory())
	}
	if got := debug.SetGCPercent(100); got != clusterGCPercent {
		t.Errorf("%d %%, want %d", got, clusterGCPercent)
	}
}

func TestBegin(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "70")
	if Begin() {
		t.Error("the environment's pace was taken over")
	}
	t.Setenv("GOGC", "")
	if !Begin() {
		t.Error("nothing paces the start")
	}
	if got := debug.SetGCPercent(100); got != starting {
		t.Errorf("%d %%, want %d", got, starting)
	}
}
