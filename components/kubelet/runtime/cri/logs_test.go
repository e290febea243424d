package cri

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/components/kubelet/runtime"
)

const written = `2026-01-01T00:00:01Z stdout F one
2026-01-01T00:00:02Z stderr F two
2026-01-01T00:00:03Z stdout P thr
2026-01-01T00:00:04Z stdout F ee
`

func readAll(t *testing.T, content string, options runtime.LogOptions) (stdout, stderr string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	r := &reader{path: path, file: file, out: recordWriter{options: options, stdout: &out, stderr: &errs}}
	defer func() { _ = r.file.Close() }()
	if options.Tail != nil {
		if err := r.seekTail(*options.Tail); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more && err == nil; {
		more, err = r.copy()
	}
	return out.String(), errs.String(), err
}

func TestRecords(t *testing.T) {
	two, none := int64(2), int64(0)
	for name, tc := range map[string]struct {
		options runtime.LogOptions
		out     string
		err     string
	}{
		"all": {runtime.LogOptions{}, "one\nthree\n", "two\n"},
		"timestamps": {runtime.LogOptions{Timestamps: true}, "2026-01-01T00:00:01Z one\n2026-01-01T00:00:03Z three\n",
			"2026-01-01T00:00:02Z two\n"},
		"since": {runtime.LogOptions{Since: time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC)}, "three\n", "two\n"},
		"tail":  {runtime.LogOptions{Tail: &two}, "three\n", ""},
		"none":  {runtime.LogOptions{Tail: &none}, "", ""},
	} {
		out, errs, err := readAll(t, written, tc.options)
		if err != nil || out != tc.out || errs != tc.err {
			t.Errorf("%s: %q, %q, %v", name, out, errs, err)
		}
	}
	if _, _, err := readAll(t, "not a record\n", runtime.LogOptions{}); err == nil {
		t.Error("what is no record is read")
	}
}

// Every tail of a long file is where so many lines are left.
func TestTails(t *testing.T) {
	line := "2026-01-01T00:00:01Z stdout F " + strings.Repeat("x", 1000) + "\n"
	content := strings.Repeat(line, 100)
	for lines := range int64(103) {
		start, err := tailStart(strings.NewReader(content), int64(len(content)), lines)
		if want := max(0, len(content)-int(lines)*len(line)); err != nil || start != int64(want) {
			t.Errorf("%d lines: %d, %v, want %d", lines, start, err, want)
		}
	}
}

func TestRotationIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("2026-01-01T00:00:01Z stdout F before\n")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &reader{path: path, file: file, out: recordWriter{stdout: &out}}
	defer func() { _ = r.file.Close() }()
	drain := func() {
		t.Helper()
		for more := true; more; {
			var err error
			if more, err = r.copy(); err != nil {
				t.Fatal(err)
			}
		}
	}
	drain()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	drain() // there is none yet
	write("2026-01-01T00:00:02Z stdout F after\n")
	drain()
	if out.String() != "before\nafter\n" {
		t.Errorf("%q", out.String())
	}
}
