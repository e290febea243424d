package hollow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// ErrPretending is what a hollow container answers when it is asked to do something.
var ErrPretending = errors.New("hollow containers only pretend: they run no commands and open no ports")

// Image implements runtime.Images: every image is there.
func (e *Engine) Image(_ context.Context, ref string) (runtime.Image, error) {
	sum := sha256.Sum256([]byte(ref))
	return runtime.Image{ID: "sha256:" + hex.EncodeToString(sum[:]), Tags: []string{ref}}, nil
}

// Images implements runtime.Images: there is no end of them, so none is listed.
func (e *Engine) Images(context.Context) ([]runtime.Image, error) { return nil, nil }

// Pull implements runtime.Images.
func (e *Engine) Pull(ctx context.Context, ref string, _ []runtime.Credential) (runtime.Image, error) {
	return e.Image(ctx, ref)
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
