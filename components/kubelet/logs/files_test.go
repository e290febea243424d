package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// files is an engine that writes the only file itself.
type files struct {
	path   string
	fails  error
	opened chan struct{} // gets a value for each time the file is begun again
}

func (f *files) ReopenLog(context.Context, string) error {
	if f.fails != nil {
		return f.fails
	}
	err := os.WriteFile(f.path, nil, 0o600)
	f.opened <- struct{}{}
	return err
}

func TestEnginesFilesAreLinkedAndRotated(t *testing.T) {
	m := newManager(t, nil)
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	m.Clock, m.MaxBytes, m.MaxFiles = clock, 10, 2
	engine := &files{path: m.file(), opened: make(chan struct{}, 1)}
	m.Files = engine
	if err := os.MkdirAll(filepath.Dir(m.file()), 0o755); err != nil {
		t.Fatal(err)
	}
	pod, observed := thePod(false)
	m.Follow(t.Context(), pod, observed)
	for range 3 {
		if err := os.WriteFile(m.file(), []byte(strings.Repeat("x", 11)), 0o600); err != nil {
			t.Fatal(err)
		}
		for rotated := false; !rotated; {
			select {
			case <-engine.opened:
				rotated = true
			default:
				if clock.HasWaiters() {
					clock.Step(rotatePeriod)
				}
			}
		}
	}
	observed.Containers[0].State = runtime.Exited
	m.Follow(t.Context(), pod, observed)
	m.Wait()
	rotated, err := filepath.Glob(m.file() + ".*")
	if err != nil || len(rotated) != 1 {
		t.Errorf("rotated files: %v, %v", rotated, err)
	}
	link := filepath.Join(m.Links, "p_ns_c-id.log")
	if to, err := os.Readlink(link); err != nil || to != m.file() {
		t.Errorf("link to %q, %v", to, err)
	}
	if err := m.Remove("id"); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(rotated, m.file(), link) {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}

// A file that the engine does not begin again keeps its name.
func TestFailedRotationIsUndone(t *testing.T) {
	m := newManager(t, nil)
	m.MaxBytes = 1
	failure := errors.New("engine is lost")
	m.Files = &files{path: m.file(), fails: failure}
	if err := os.MkdirAll(filepath.Dir(m.file()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.file(), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.rotate(t.Context(), m.file(), "id"); !errors.Is(err, failure) {
		t.Error(err)
	}
	if got := read(t, m.file()); got != "content" {
		t.Errorf("%q", got)
	}
}
