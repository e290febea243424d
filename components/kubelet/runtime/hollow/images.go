package hollow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// ErrPretending is what a hollow container answers when it is asked to do something.
var ErrPretending = errors.New("hollow containers only pretend: they run no commands and open no ports")

// What the pretended image file system holds, in bytes.
const (
	imageSize    = 10 << 20
	diskCapacity = 100 << 30
)

// Image implements runtime.Images: every image is there that was not removed.
func (e *Engine) Image(_ context.Context, ref string) (runtime.Image, error) {
	image := pretended(ref)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone[image.ID] {
		return runtime.Image{}, fmt.Errorf("image %s: %w", ref, runtime.ErrNotFound)
	}
	return image, nil
}

func pretended(ref string) runtime.Image {
	sum := sha256.Sum256([]byte(ref))
	return runtime.Image{ID: "sha256:" + hex.EncodeToString(sum[:]), Tags: []string{ref}, SizeBytes: imageSize}
}

// Images implements runtime.Images: those that were pulled, as there is no end of the others.
func (e *Engine) Images(context.Context) ([]runtime.Image, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	images := make([]runtime.Image, 0, len(e.pulled))
	for _, ref := range slices.Sorted(maps.Values(e.pulled)) {
		images = append(images, pretended(ref))
	}
	return images, nil
}

// Pull implements runtime.Images.
func (e *Engine) Pull(_ context.Context, ref string, _ runtime.Credential) (runtime.Image, error) {
	image := pretended(ref)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulled[image.ID] = ref
	delete(e.gone, image.ID)
	return image, nil
}

// RemoveImage implements runtime.Images.
func (e *Engine) RemoveImage(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, pod := range e.pods {
		for i := range pod.Containers {
			if c := &pod.Containers[i]; c.ImageID == id || pretended(c.Image).ID == id {
				return fmt.Errorf("image %s is used by container %s", id, c.ID)
			}
		}
	}
	delete(e.pulled, id)
	e.gone[id] = true
	return nil
}

// ImageFilesystem implements runtime.Images.
func (e *Engine) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	used := int64(len(e.pulled)) * imageSize
	return runtime.Filesystem{Capacity: diskCapacity, Available: max(0, diskCapacity-used)}, nil
}

// Logs implements runtime.Streams.
func (e *Engine) Logs(_ context.Context, id string, _ runtime.LogOptions, stdout, _ io.Writer) error {
	e.mu.Lock()
	text, known := e.logs[id]
	if c := e.container(id); c != nil {
		known = true
	}
	e.mu.Unlock()
	if !known {
		return fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	if stdout == nil {
		return nil
	}
	_, err := io.WriteString(stdout, text)
	return err
}

// Exec implements runtime.Streams.
func (e *Engine) Exec(context.Context, string, runtime.ExecOptions) (int, error) {
	return 0, ErrPretending
}

// Attach implements runtime.Streams.
func (e *Engine) Attach(context.Context, string, runtime.ExecOptions) error { return ErrPretending }

// Dial implements runtime.Streams.
func (e *Engine) Dial(context.Context, string, int32) (net.Conn, error) { return nil, ErrPretending }
