package audit

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// names of what is in the folder of a log.
func names(t *testing.T, f *file) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func put(t *testing.T, f *file, text string) {
	t.Helper()
	if n, err := f.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("writing %q: %d, %v", text, n, err)
	}
}

func TestFile(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	path := filepath.Join(t.TempDir(), "new", "audit.log")
	config := fileConfig{Path: path, MaxSize: 10, MaxBackups: 2, Clock: clock}
	f, err := openFile(config)
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, "12345")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	other := filepath.Join(filepath.Dir(path), "audit-of-others.log")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	f, err = openFile(config) // goes on where the last one ended
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put(t, f, "67890")
	for _, text := range []string{"a", "bbbbbbbbbb", "cccccccccc", "d"} {
		clock.Step(time.Second)
		put(t, f, text)
		f.tasks.Wait()
	}
	if _, err := f.Write([]byte("more than ten")); err == nil {
		t.Error("more than a file holds is taken")
	}
	want := []string{"audit-2026-01-01T00-00-03.000.log", "audit-2026-01-01T00-00-04.000.log", "audit-of-others.log",
		"audit.log"}
	if got := names(t, f); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, want := range map[string]string{want[0]: "bbbbbbbbbb", want[1]: "cccccccccc", "audit.log": "d"} {
		if got, _ := os.ReadFile(filepath.Join(filepath.Dir(path), name)); string(got) != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

func TestFileAgeAndCompression(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f, err := openFile(fileConfig{Path: filepath.Join(t.TempDir(), "audit"), MaxSize: 4, MaxAge: 3, Compress: true,
		Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, text := range []string{"aaaa", "bbbb", "cccc", "dddd", "eeee"} {
		clock.Step(24*time.Hour + time.Second)
		put(t, f, text)
		f.tasks.Wait()
	}
	got := names(t, f)
	if len(got) != 4 || got[0] != "audit" || !strings.HasPrefix(got[1], "audit-2026-01-04T") {
		t.Fatalf("got %v", got)
	}
	packed, err := os.Open(filepath.Join(filepath.Dir(f.Path), got[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	zip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(zip); string(text) != "bbbb" || err != nil {
		t.Errorf("unpacked %q, %v", text, err)
	}
}

// TestFileMovedAway: a log that was moved away is created again when it would be full.
func TestFileMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f, err := openFile(fileConfig{Path: path, MaxSize: 10, Clock: testclock.NewFakeClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, "12345678")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, f, "abcdefgh")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "abcdefgh" {
		t.Errorf("got %q, %v", text, err)
	}
}
