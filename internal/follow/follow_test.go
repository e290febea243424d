package follow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "a")
	write(t, two, "b")
	var seen []string
	broken := true
	f, err := New(func(_ context.Context, contents [][]byte) error {
		all := string(contents[0]) + string(contents[1])
		seen = append(seen, all)
		switch {
		case broken && strings.Contains(all, "bad"):
			return errors.New("bad content")
		case strings.Contains(all, "nonsense"):
			return Permanent(errors.New("nonsense"))
		}
		return Permanent(nil)
	}, one, two)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	failed := 0
	f.Failed = func() { failed++ }
	for _, step := range []struct {
		name  string
		do    func()
		calls int
		fails bool
	}{
		{"nothing changed", func() {}, 0, false},
		{"one changed", func() { write(t, two, "c") }, 1, false},
		{"applied once", func() {}, 0, false},
		{"bad", func() { write(t, one, "bad") }, 1, true},
		{"told once", func() {}, 0, false},
		{"tried again", func() { now = now.Add(Retry) }, 1, true},
		{"as before", func() { write(t, one, "a") }, 0, false},
		{"bad again", func() { write(t, one, "bad") }, 1, true},
		{"mended elsewhere", func() { broken = false; now = now.Add(Retry) }, 1, false},
		{"gone", func() { _ = os.Remove(one) }, 0, true},
		{"back", func() { write(t, one, "d") }, 1, false},
		{"nonsense", func() { write(t, one, "nonsense") }, 1, true},
		{"never tried again", func() { now = now.Add(Retry) }, 0, false},
		{"other nonsense", func() { write(t, one, "nonsense!") }, 1, true},
		{"as it was", func() { write(t, one, "d") }, 0, false},
		{"the same nonsense", func() { write(t, one, "nonsense!") }, 1, true},
	} {
		seen, failed = nil, 0
		step.do()
		if err := f.look(context.Background(), now); (err != nil) != step.fails || len(seen) != step.calls ||
			(failed == 1) != step.fails {
			t.Errorf("%s: %v, applied %q, told of %d failures", step.name, err, seen, failed)
		}
	}
}

// TestSettled: a file that was the same at two looks is not read again until its size or its time changes.
func TestSettled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	began := time.Now()
	put := func(content string, at time.Time) {
		t.Helper()
		write(t, path, content)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put("a", began)
	var seen string
	f, err := New(func(_ context.Context, contents [][]byte) error { seen = string(contents[0]); return nil }, path)
	if err != nil {
		t.Fatal(err)
	}
	now := began
	look := func(want string) {
		t.Helper()
		if err := f.look(t.Context(), now); err != nil || seen != want {
			t.Errorf("%q, %v; want %q", seen, err, want)
		}
	}
	look("a")
	put("b", began) // within the resolution of the time
	look("b")
	look("b")
	look("b")
	put("c", began)
	look("b") // not read
	now = now.Add(Retry)
	look("c") // copied over in place, with the time of before
	put("d", began.Add(time.Second))
	look("d")
	put("longer", began.Add(time.Second))
	look("longer")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.look(t.Context(), began); err == nil {
		t.Error("a file that is gone is not missed")
	}
}

// What failed once is tried, and told of, when it comes back after other content.
func TestFailsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "good")
	broken := errors.New("broken")
	var seen string
	f, err := New(func(_ context.Context, contents [][]byte) error {
		if string(contents[0]) == "bad" {
			return broken
		}
		seen = string(contents[0])
		return nil
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	failures, now := 0, time.Now()
	f.Failed = func() { failures++ }
	for i, step := range []struct {
		content  string
		err      error
		seen     string
		failures int
	}{{"bad", broken, "good", 1}, {"better", nil, "better", 1}, {"bad", broken, "better", 2}} {
		write(t, path, step.content)
		now = now.Add(Every)
		if err := f.look(t.Context(), now); !errors.Is(err, step.err) || seen != step.seen || failures != step.failures {
			t.Errorf("%d: %v, %q is used, %d failures; want %+v", i, err, seen, failures, step)
		}
	}
}

func TestNewFails(t *testing.T) {
	fine := filepath.Join(t.TempDir(), "fine")
	write(t, fine, "")
	never := func(context.Context, [][]byte) error { return errors.New("never") }
	if _, err := New(never, fine); err == nil || err.Error() != "never" {
		t.Errorf("content that can't be used: %v", err)
	}
	if _, err := New(never, fine, "/none/file"); err == nil || !strings.Contains(err.Error(), "/none/file") {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	applied := make(chan string, 1)
	f, err := New(func(_ context.Context, contents [][]byte) error { applied <- string(contents[0]); return nil }, path)
	if err != nil {
		t.Fatal(err)
	}
	<-applied
	clk := testingclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx, clk) }()
	write(t, path, "b")
	for got := ""; got != "b"; { // the first tick may come before the ticker is there
		clk.Step(Every)
		select {
		case got = <-applied:
		default:
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
