package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

type entry struct {
	name, content, link string
	kind                byte
	mode                int64
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), Linkname: e.link,
			ModTime: time.Unix(1000, 0), Uid: os.Getuid(), Gid: os.Getgid()}
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Mode == 0 {
			header.Mode = 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// image is an archive of an image with layers.
func image(t *testing.T, layers ...[]byte) []byte {
	t.Helper()
	var entries []entry
	var names []string
	for i, layer := range layers {
		name := fmt.Sprintf("blobs/sha256/%d", i)
		names = append(names, name)
		entries = append(entries, entry{name: name, content: string(layer)})
	}
	manifest, err := json.Marshal([]map[string]any{{"Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	return archive(t, append(entries, entry{name: "manifest.json", content: string(manifest)})...)
}

func unpack(t *testing.T, data []byte) (string, error) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	return root, Unpack(bytes.NewReader(data), filepath.Join(dir, "work"), root)
}

// files are the files below root: contents, or "-> target" of links.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			found[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestUnpack(t *testing.T) {
	for name, test := range map[string]struct {
		layers [][]entry
		want   map[string]string
	}{
		"one layer": {[][]entry{{{name: "a", content: "1"}, {name: "d/", kind: tar.TypeDir}, {name: "d/b", content: "2"}}},
			map[string]string{"a": "1", "d/b": "2"}},
		"replaced": {[][]entry{{{name: "a", content: "1"}}, {{name: "a", content: "2"}}},
			map[string]string{"a": "2"}},
		"removed": {[][]entry{{{name: "a", content: "1"}, {name: "d/b"}}, {{name: ".wh.d"}}},
			map[string]string{"a": "1"}},
		"removed nothing": {[][]entry{{{name: ".wh.d"}}}, map[string]string{}},
		"opaque": {[][]entry{{{name: "d/a"}, {name: "d/s/b"}}, {{name: "d/c"}, {name: "d/.wh..wh..opq"}}},
			map[string]string{"d/c": ""}},
		"a file for a tree": {[][]entry{{{name: "d/a"}}, {{name: "d", content: "x"}}}, map[string]string{"d": "x"}},
		"links": {[][]entry{{{name: "usr/lib/a", content: "1"}, {name: "lib", kind: tar.TypeSymlink, link: "usr/lib"},
			{name: "hard", kind: tar.TypeLink, link: "usr/lib/a"}}, {{name: "lib/b", content: "2"}}},
			map[string]string{"usr/lib/a": "1", "usr/lib/b": "2", "lib": "-> usr/lib", "hard": "1"}},
		"no devices": {[][]entry{{{name: "null", kind: tar.TypeChar}}}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range test.layers {
				layers = append(layers, archive(t, l...))
			}
			root, err := unpack(t, image(t, layers...))
			if err != nil {
				t.Fatal(err)
			}
			if got := files(t, root); !maps.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestModesAndTimes(t *testing.T) {
	root, err := unpack(t, image(t, archive(t, entry{name: "x", mode: 0o4711})))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(root, "x"))
	if err != nil || info.Mode() != 0o711|fs.ModeSetuid || info.ModTime().Unix() != 1000 {
		t.Errorf("%v, %v, %v", info.Mode(), info.ModTime(), err)
	}
}

func TestCompressedLayers(t *testing.T) {
	plain := archive(t, entry{name: "a", content: "1"})
	var zipped, zstandard bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z, err := zstd.NewWriter(&zstandard)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{g, z} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, layer := range [][]byte{plain, zipped.Bytes(), zstandard.Bytes()} {
		root, err := unpack(t, image(t, layer))
		if err != nil {
			t.Fatal(err)
		}
		if got := files(t, root); got["a"] != "1" {
			t.Errorf("got %q", got)
		}
	}
}

func TestNothingIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	for _, layer := range [][]entry{
		{{name: "../x"}}, {{name: "a/../../x"}},
		{{name: "out", kind: tar.TypeSymlink, link: outside}, {name: "out/x"}},
		{{name: "out", kind: tar.TypeSymlink, link: "../.."}, {name: "out/x"}},
		{{name: "x", kind: tar.TypeLink, link: "../../x"}},
	} {
		if _, err := unpack(t, image(t, archive(t, layer...))); err == nil {
			t.Errorf("%+v was written", layer)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if _, err := unpack(t, archive(t, entry{name: "other"})); err == nil {
		t.Error("an archive without a manifest was taken")
	}
}
