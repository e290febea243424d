package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/moby/moby/client"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Logs implements runtime.Streams.
func (e *Engine) Logs(ctx context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error {
	inspected, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return mark(err)
	}
	wanted := client.ContainerLogsOptions{
		ShowStdout: stdout != nil, ShowStderr: stderr != nil, Follow: options.Follow, Timestamps: options.Timestamps,
		Tail: "all",
	}
	if !options.Since.IsZero() {
		wanted.Since = options.Since.Format(time.RFC3339Nano)
	}
	if options.Tail != nil {
		wanted.Tail = strconv.FormatInt(*options.Tail, 10)
	}
	stream, err := e.api.ContainerLogs(ctx, id, wanted)
	if err != nil {
		return mark(err)
	}
	defer stream.Close()
	if inspected.Container.Config.Tty {
		if stdout == nil { // a terminal has one stream only
			return nil
		}
		_, err = io.Copy(stdout, stream)
	} else {
		err = demultiplex(orDiscard(stdout), orDiscard(stderr), stream)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Exec implements runtime.Streams.
func (e *Engine) Exec(ctx context.Context, id string, options runtime.ExecOptions) (_ int, err error) {
	defer e.observe("exec", &err)()
	env, err := e.deviceEnv(ctx, id)
	if err != nil {
		return 0, err
	}
	created, err := e.api.ExecCreate(ctx, id, client.ExecCreateOptions{
		Cmd:          options.Command,
		Env:          env,
		TTY:          options.TTY,
		AttachStdin:  options.Stdin != nil,
		AttachStdout: options.Stdout != nil,
		AttachStderr: options.Stderr != nil && !options.TTY,
	})
	if err != nil {
		return 0, mark(err)
	}
	attached, err := e.api.ExecAttach(ctx, created.ID, client.ExecAttachOptions{TTY: options.TTY})
	if err != nil {
		return 0, err
	}
	done := make(chan struct{})
	defer close(done)
	go resize(done, options.Resize, func(size runtime.Size) {
		_, _ = e.api.ExecResize(ctx, created.ID,
			client.ExecResizeOptions{Height: uint(size.Height), Width: uint(size.Width)})
	})
	if err := connect(ctx, &attached.HijackedResponse, options); err != nil {
		e.killLate(ctx, id, created.ID)
		return 0, err
	}
	code, err := e.exitCode(ctx, created.ID)
	if err != nil {
		e.killLate(ctx, id, created.ID)
	}
	return code, err
}

// killLate kills the process of a command whose deadline passed, as container runtimes do; the engine has no request
// for that. A command whose client disconnected continues.
func (e *Engine) killLate(ctx context.Context, container, exec string) {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	ctx, cancel := bounded(context.WithoutCancel(ctx), 0)
	defer cancel()
	state, err := e.begun(ctx, exec)
	if err == nil && state.Running && state.PID > 0 {
		err = killProcess(state.PID, container)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Process of a command that timed out can't be killed",
			"containerID", container)
	}
}

// begun waits until a command has a process, or could not get one: a deadline may pass before the engine has made it.
func (e *Engine) begun(ctx context.Context, exec string) (client.ExecInspectResult, error) {
	for {
		state, err := e.api.ExecInspect(ctx, exec, client.ExecInspectOptions{})
		if err != nil || state.PID > 0 || state.ExitCode != 0 {
			return state, err
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// exitCode returns the exit code of a command whose streams ended; the engine may need a moment to know it.
func (e *Engine) exitCode(ctx context.Context, exec string) (int, error) {
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		state, err := e.api.ExecInspect(ctx, exec, client.ExecInspectOptions{})
		if err != nil {
			return 0, err
		}
		if !state.Running {
			return state.ExitCode, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(delay):
		}
	}
}

// Attach implements runtime.Streams.
func (e *Engine) Attach(ctx context.Context, id string, options runtime.ExecOptions) (err error) {
	defer e.observe("attach", &err)()
	attached, err := e.api.ContainerAttach(ctx, id, client.ContainerAttachOptions{
		Stream: true, Stdin: options.Stdin != nil, Stdout: options.Stdout != nil, Stderr: options.Stderr != nil,
	})
	if err != nil {
		return mark(err)
	}
	done := make(chan struct{})
	defer close(done)
	go resize(done, options.Resize, func(size runtime.Size) {
		_, _ = e.api.ContainerResize(ctx, id,
			client.ContainerResizeOptions{Height: uint(size.Height), Width: uint(size.Width)})
	})
	// The engine ends the stream with the container, but a stream of one that has ended already it keeps for the next
	// start.
	inspected, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		attached.Close()
		return mark(err)
	}
	if state := inspected.Container.State; state == nil || state.Running {
		return connect(ctx, &attached.HijackedResponse, options)
	}
	rest, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	if err := connect(rest, &attached.HijackedResponse, options); err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("container %s does not run", id)
}

// lastWords is how long the stream of a container that ended while it was being attached to may take to end by itself.
const lastWords = time.Second

func resize(done <-chan struct{}, sizes <-chan runtime.Size, apply func(runtime.Size)) {
	for {
		select {
		case <-done:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			apply(size)
		}
	}
}

// connect copies between the engine's stream and the caller's until the output ends or ctx does.
func connect(ctx context.Context, stream *client.HijackedResponse, options runtime.ExecOptions) error {
	stop := context.AfterFunc(ctx, stream.Close)
	defer stop()
	defer stream.Close()
	if options.Stdin != nil {
		go func() { // ends when the caller's stream does
			_, _ = io.Copy(stream.Conn, options.Stdin)
			_ = stream.CloseWrite()
		}()
	}
	var err error
	if options.TTY {
		_, err = io.Copy(orDiscard(options.Stdout), stream.Reader)
	} else {
		err = demultiplex(orDiscard(options.Stdout), orDiscard(options.Stderr), stream.Reader)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// Dial implements runtime.Streams: it enters the sandbox's network namespace, so that servers that listen on
// the pod's loopback only are reached too.
func (e *Engine) Dial(ctx context.Context, sandboxID string, port int32) (net.Conn, error) {
	inspected, err := e.api.ContainerInspect(ctx, sandboxID, client.ContainerInspectOptions{})
	if err != nil {
		return nil, mark(err)
	}
	if inspected.Container.State == nil || inspected.Container.State.Pid == 0 {
		return nil, fmt.Errorf("sandbox %s does not run", sandboxID)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, 1)
	go func() {
		conn, err := dialInNamespace(ctx, fmt.Sprintf("/proc/%d/ns/net", inspected.Container.State.Pid), port)
		results <- result{conn, err}
	}()
	r := <-results
	return r.conn, r.err
}
