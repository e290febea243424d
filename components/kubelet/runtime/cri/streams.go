package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Exec implements runtime.Streams. A command that has a deadline and no input is left to the engine alone, which kills
// it when that passes; others run over streams, and go on when their client disconnects.
func (e *Engine) Exec(ctx context.Context, id string, options runtime.ExecOptions) (int, error) {
	if _, bounded := ctx.Deadline(); bounded && options.Stdin == nil && !options.TTY {
		return e.execSync(ctx, id, options)
	}
	return e.execStreamed(ctx, id, options)
}

func (e *Engine) execSync(ctx context.Context, id string, options runtime.ExecOptions) (_ int, err error) {
	defer e.observe("exec_sync", &err)()
	answer, err := e.runtime.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: options.Command})
	if err != nil {
		return 0, mark(err)
	}
	_, outErr := orDiscard(options.Stdout).Write(answer.GetStdout())
	_, errErr := orDiscard(options.Stderr).Write(answer.GetStderr())
	return int(answer.GetExitCode()), errors.Join(outErr, errErr)
}

func (e *Engine) execStreamed(ctx context.Context, id string, options runtime.ExecOptions) (_ int, err error) {
	defer e.observe("exec", &err)()
	if options.Stdin == nil && options.Stdout == nil && options.Stderr == nil {
		options.Stdout = io.Discard // engines want one at least
	}
	answer, err := e.runtime.Exec(ctx, &cri.ExecRequest{ContainerId: id, Cmd: options.Command, Tty: options.TTY,
		Stdin: options.Stdin != nil, Stdout: options.Stdout != nil, Stderr: options.Stderr != nil && !options.TTY})
	if err != nil {
		return 0, mark(err)
	}
	err = stream(ctx, answer.GetUrl(), options)
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}

// Attach implements runtime.Streams.
func (e *Engine) Attach(ctx context.Context, id string, options runtime.ExecOptions) (err error) {
	defer e.observe("attach", &err)()
	if options.Stdin == nil && options.Stdout == nil && options.Stderr == nil {
		options.Stdout = io.Discard
	}
	answer, err := e.runtime.Attach(ctx, &cri.AttachRequest{ContainerId: id, Tty: options.TTY,
		Stdin: options.Stdin != nil, Stdout: options.Stdout != nil, Stderr: options.Stderr != nil && !options.TTY})
	if err != nil {
		return mark(err)
	}
	return stream(ctx, answer.GetUrl(), options)
}

// stream connects the caller's streams with those that the engine serves at an address, until their end or ctx's.
func stream(ctx context.Context, address string, options runtime.ExecOptions) error {
	where, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the container engine streams at %q: %w", address, err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", where)
	if err != nil {
		return fmt.Errorf("streams of the container engine: %w", err)
	}
	var mu sync.Mutex
	wanted := remotecommand.StreamOptions{Stdin: options.Stdin, Tty: options.TTY}
	if options.Stdout != nil {
		wanted.Stdout = &turns{&mu, options.Stdout}
	}
	if options.Stderr != nil && !options.TTY { // a terminal has one stream only
		wanted.Stderr = &turns{&mu, options.Stderr}
	}
	if options.Resize != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		wanted.TerminalSizeQueue = sizes{ctx, options.Resize}
	}
	err = executor.StreamWithContext(ctx, wanted)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// turns lets two streams write one at a time: the caller may have them end in one writer.
type turns struct {
	mu *sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (t *turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.Write(p)
}

// sizes are those of a terminal, until ctx ends.
type sizes struct {
	ctx  context.Context
	next <-chan runtime.Size
}

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-s.next:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	case <-s.ctx.Done():
		return nil
	}
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
