// Package layers unpacks the archive of an image, as "docker save" writes it, to the files that a container of the
// image would see (https://github.com/opencontainers/image-spec/blob/main/layer.md).
package layers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Unpack reads an archive of one image and writes its files below root. The archive's parts are kept in work meanwhile.
// Neither directory may exist before; the caller removes them.
func Unpack(archive io.Reader, work, root string) error {
	for _, dir := range []string{work, root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	parts, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer parts.Close()
	if err := keepParts(archive, parts); err != nil {
		return err
	}
	data, err := parts.ReadFile("manifest.json")
	if err != nil {
		return fmt.Errorf("the archive names no image: %w", err)
	}
	var manifest []struct{ Layers []string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	if len(manifest) != 1 {
		return fmt.Errorf("the archive has %d images instead of one", len(manifest))
	}
	inside, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, name := range manifest[0].Layers {
		if err := applyPart(parts, name, inside); err != nil {
			return fmt.Errorf("layer %s: %w", name, err)
		}
	}
	return nil
}

// keepParts writes the files of the archive below parts.
func keepParts(archive io.Reader, parts *os.Root) error {
	entries := tar.NewReader(archive)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		if err := parts.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeReg:
			err = writeFile(parts, name, entries, 0o600)
		case tar.TypeSymlink: // old engines share equal layers this way
			err = parts.Symlink(header.Linkname, name)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(dir *os.Root, name string, content io.Reader, mode fs.FileMode) error {
	file, err := dir.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

func applyPart(parts *os.Root, name string, root *os.Root) error {
	file, err := parts.Open(path.Clean(name))
	if err != nil {
		return err
	}
	defer file.Close()
	layer, err := decompressed(file)
	if err != nil {
		return err
	}
	return apply(tar.NewReader(layer), root)
}

// decompressed reads a layer whatever it was compressed with.
func decompressed(file io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(file)
	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
	default:
		return buffered, nil
	}
}

// apply changes the files below root by a layer.
func apply(layer *tar.Reader, root *os.Root) error {
	made := map[string]bool{} // by this layer: an opaque directory keeps it
	for {
		header, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(strings.TrimPrefix(header.Name, "/"))
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q leads out of the image", header.Name)
		}
		dir, base := path.Dir(name), path.Base(name)
		switch {
		case base == opaque:
			err = clearDirectory(root, dir, made)
		case strings.HasPrefix(base, whiteout):
			err = root.RemoveAll(path.Join(dir, strings.TrimPrefix(base, whiteout)))
		default:
			err = write(layer, header, name, root)
			for p := name; p != "."; p = path.Dir(p) {
				made[p] = true
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// clearDirectory removes what lower layers have in a directory.
func clearDirectory(root *os.Root, dir string, made map[string]bool) error {
	opened, err := root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := opened.Readdirnames(-1)
	if err := errors.Join(err, opened.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if inner := path.Join(dir, name); !made[inner] {
			if err := root.RemoveAll(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// write makes one file of a layer in place of what a lower one has. Devices are left out: a volume is no place for
// them.
func write(layer *tar.Reader, header *tar.Header, name string, root *os.Root) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := header.FileInfo().Mode()
	info, err := root.Lstat(name)
	if err == nil && name != "." && !(info.IsDir() && mode.IsDir()) {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		err = root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		err = writeFile(root, name, layer, 0o600)
	case tar.TypeSymlink:
		err = root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(strings.TrimPrefix(header.Linkname, "/")), name)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := root.Lchown(name, header.Uid, header.Gid); err != nil {
			return err
		}
	}
	if header.Typeflag == tar.TypeSymlink {
		return nil
	}
	if err := root.Chmod(name, mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	return root.Chtimes(name, header.ModTime, header.ModTime)
}
