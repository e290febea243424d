package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStages: the Dockerfile of this tree is understood, and each file that a stage copies can be made.
func TestStages(t *testing.T) {
	s, err := folder("..")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := s.stages()
	if err != nil {
		t.Fatal(err)
	}
	names := namesOf(stages)
	for _, want := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "coredns",
		"node"} {
		if !slices.Contains(names, want) {
			t.Errorf("no image %s among %v", want, names)
		}
	}
	for _, stage := range stages {
		if stage.from != "scratch" && stage.from != baseName {
			t.Errorf("%s is built on %s", stage.name, stage.from)
		}
		for _, program := range stage.programs() {
			if _, err := s.placeOf(program); err != nil {
				t.Errorf("%s: %v", stage.name, err)
			}
		}
		for _, archive := range stage.archives() {
			if !slices.Contains(names, archive) {
				t.Errorf("%s copies the archive of %s, which is no image", stage.name, archive)
			}
		}
	}
}

func TestParseStages(t *testing.T) {
	stages, err := parseStages("# one\nFROM scratch AS a\nCOPY x y.tar /bin/\n\nFROM node-base AS b\nCOPY z /\n")
	if err != nil || len(stages) != 2 {
		t.Fatalf("%v, %v", stages, err)
	}
	a, b := stages[0], stages[1]
	if !slices.Equal(a.programs(), []string{"x"}) || !slices.Equal(a.archives(), []string{"y"}) ||
		b.on("base:1") != "FROM base:1 AS b\nCOPY z /\n" {
		t.Errorf("%+v, %q", a, b.on("base:1"))
	}
	for text, want := range map[string]string{
		"FROM scratch\n": "FROM base AS name", "COPY a /\n": "before the first stage",
		"FROM scratch AS a\nCOPY b\n": "COPY file... folder",
	} {
		if _, err := parseStages(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestClosure(t *testing.T) {
	stages := []stage{{name: "a"}, {name: "b", files: []string{"a.tar", "p"}}, {name: "c"}}
	wanted, err := closure(stages, []string{"b"})
	if err != nil || !slices.Equal(namesOf(wanted), []string{"a", "b"}) {
		t.Errorf("%v, %v", namesOf(wanted), err)
	}
	if got := levels(wanted); !slices.Equal(namesOf(got[0]), []string{"a"}) ||
		!slices.Equal(namesOf(got[1]), []string{"b"}) {
		t.Errorf("levels are %v", got)
	}
	if all, err := closure(stages, nil); err != nil || len(all) != 3 {
		t.Errorf("%v, %v", all, err)
	}
	_, err = closure(stages, []string{"d"})
	if err == nil || !strings.Contains(err.Error(), `no image "d"; there are a, b, c`) {
		t.Errorf("%v", err)
	}
}

// TestContextDependsOnContent: two contexts of the same files are the same bytes, whatever the files' times.
func TestContextDependsOnContent(t *testing.T) {
	var written [2]bytes.Buffer
	for i := range written {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := buildContext{dockerfile: "FROM scratch\n", files: []contextFile{{name: "program", path: file, mode: 0o755}}}
		if err := c.write(&written[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0].Bytes(), written[1].Bytes()) {
		t.Error("the contexts differ")
	}
	var names []string
	for archive := tar.NewReader(&written[0]); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	if !slices.Equal(names, []string{"Dockerfile", "program"}) {
		t.Errorf("the context has %v", names)
	}
}

func TestLastError(t *testing.T) {
	for messages, want := range map[string]string{
		`{"stream":"Step 1"}{"stream":"ok"}`:          "",
		`{"stream":"Step 1"}{"error":"no such file"}`: "no such file\nStep 1",
		`{"stream":`: "unexpected EOF",
	} {
		err := lastError(strings.NewReader(messages))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", messages, err)
		}
	}
}

// TestRecord: references are found for the very source and prefix that they were saved for.
func TestRecord(t *testing.T) {
	r := record{file: filepath.Join(t.TempDir(), "images.json"), Source: "s", Prefix: "p"}
	for _, refs := range []map[string]string{{"a": "p/a:1"}, {"b": "p/b:1"}} {
		if err := r.save(refs); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.find([]string{"a", "b"}); got["a"] != "p/a:1" || got["b"] != "p/b:1" {
		t.Errorf("%v", got)
	}
	for _, other := range []record{{file: r.file, Source: "t", Prefix: "p"}, {file: r.file, Source: "s", Prefix: "q"}} {
		if got := other.find([]string{"a"}); got != nil {
			t.Errorf("%+v finds %v", other, got)
		}
	}
	if r.find([]string{"a", "c"}) != nil || r.find(nil) != nil {
		t.Error("what is not known is found")
	}
}

// TestExclusively: what waits for a lock gives up with its context, and gets it once it is free.
func TestExclusively(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	err := exclusively(t.Context(), file, func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return exclusively(ctx, file, func() error { t.Error("two hold the lock"); return nil })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	got := false
	if err := exclusively(t.Context(), file, func() error { got = true; return nil }); err != nil || !got {
		t.Errorf("%t, %v", got, err)
	}
}
