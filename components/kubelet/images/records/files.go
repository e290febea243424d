package records

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"quintet.dev/quintet/internal/durable"
)

// files are the records on disk, where upstream's kubelet keeps them: a file per image in image_manager/pulling, one
// per image ID in image_manager/pulled.
type files struct{ pulling, pulled string }

const prefix = "sha256-"

func newFiles(root string) (files, error) {
	f := files{filepath.Join(root, "image_manager", "pulling"), filepath.Join(root, "image_manager", "pulled")}
	for _, dir := range []string{f.pulling, f.pulled} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return f, err
		}
	}
	return f, nil
}

// fileName keeps what a file system would not: slashes and colons.
func fileName(key string) string { return prefix + fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func meta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: kind}
}

// write replaces a file as a whole: one that is half written after a crash would be worse than none.
func write(path string, object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(path, data, 0o600)
}

// read fills object from a file; a file that there is not leaves found false.
func read(path string, object any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, object); err != nil {
		return true, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f files) writeIntent(image string) error {
	return write(filepath.Join(f.pulling, fileName(image)),
		&kubeletconfig.ImagePullIntent{TypeMeta: meta("ImagePullIntent"), Image: image})
}

func (f files) intended(image string) (bool, error) {
	var intent kubeletconfig.ImagePullIntent
	found, err := read(filepath.Join(f.pulling, fileName(image)), &intent)
	return found && intent.Image == image, err
}

func (f files) removeIntent(image string) error {
	return remove(filepath.Join(f.pulling, fileName(image)))
}

// record reads what is known of an image, nil if nothing is.
func (f files) record(id string) (*kubeletconfig.ImagePulledRecord, error) {
	record := &kubeletconfig.ImagePulledRecord{}
	found, err := read(filepath.Join(f.pulled, fileName(id)), record)
	if !found || err != nil {
		return nil, err
	}
	return record, nil
}

func (f files) writeRecord(record *kubeletconfig.ImagePulledRecord) error {
	record.TypeMeta = meta("ImagePulledRecord")
	return write(filepath.Join(f.pulled, fileName(record.ImageRef)), record)
}

func (f files) removeRecord(id string) error { return remove(filepath.Join(f.pulled, fileName(id))) }

// each calls visit for the path of every record of a directory; all errors are returned together.
func each(dir string, visit func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) && !strings.HasSuffix(entry.Name(), durable.Suffix) {
			failures = append(failures, visit(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(failures...)
}
