package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// runningID is the running container of a request.
func (s *Server) runningID(r *http.Request) (*v1.Pod, string, error) {
	pod, err := s.pod(r)
	if err != nil {
		return nil, "", err
	}
	name := r.PathValue("container")
	cs := containerStatus(pod, name)
	if cs == nil || cs.State.Running == nil {
		return nil, "", &failure{http.StatusNotFound, fmt.Sprintf("container not found (%q)", name)}
	}
	return pod, bareID(cs.ContainerID), nil
}

// streamed finds out what a request for streams is for. Where that fails it answers, and reports false.
func (s *Server) streamed(w http.ResponseWriter,
	r *http.Request) (pod *v1.Pod, id string, options *remotecommand.Options, ok bool) {
	pod, id, err := s.runningID(r)
	if err != nil {
		fail(w, err)
		return nil, "", nil, false
	}
	if options, err = remotecommand.NewOptions(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, "", nil, false
	}
	return pod, id, options, true
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	pod, id, options, ok := s.streamed(w, r)
	if !ok {
		return
	}
	remotecommand.ServeExec(w, r, streams{s.Engine}, pod.Name, string(pod.UID), id, r.URL.Query()["command"], options,
		s.IdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	pod, id, options, ok := s.streamed(w, r)
	if !ok {
		return
	}
	options.TTY = hasTTY(pod, r.PathValue("container"))
	if options.TTY {
		options.Stderr = false
	}
	remotecommand.ServeAttach(w, r, streams{s.Engine}, pod.Name, string(pod.UID), id, options,
		s.IdleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func hasTTY(pod *v1.Pod, name string) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].TTY
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.TTY
		}
	}
	return false
}

// run executes a command and answers with what it wrote.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	_, id, err := s.runningID(r)
	if err != nil {
		fail(w, err)
		return
	}
	var out bytes.Buffer
	code, err := s.Engine.Exec(r.Context(), id, runtime.ExecOptions{Command: r.URL.Query()["cmd"], Stdout: &out,
		Stderr: &out})
	if err == nil && code != 0 {
		err = fmt.Errorf("command exited with %d: %s", code, out.String())
	}
	if err != nil {
		fail(w, err)
		return
	}
	_, _ = w.Write(out.Bytes())
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	pod, err := s.pod(r)
	if err != nil {
		fail(w, err)
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, streams{s.Engine}, pod.Name, string(pod.UID), options,
		s.IdleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// streams adapts the engine to the interface of the streaming library.
type streams struct{ engine runtime.Engine }

func (s streams) ExecInContainer(ctx context.Context, _, _, container string, command []string, in io.Reader, out,
	errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	options, done := execOptions(in, out, errOut, tty, resize)
	defer done()
	options.Command = command
	code, err := s.engine.Exec(ctx, container, options)
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command exited with %d", code), Code: code}
	}
	return nil
}

func (s streams) AttachContainer(ctx context.Context, _, _, container string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize) error {
	options, done := execOptions(in, out, errOut, tty, resize)
	defer done()
	return s.engine.Attach(ctx, container, options)
}

// execOptions keeps absent streams absent: an interface that holds a nil stream is not nil.
func execOptions(in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) (runtime.ExecOptions, func()) {
	options := runtime.ExecOptions{Stdin: in, TTY: tty}
	if out != nil {
		options.Stdout = out
	}
	if errOut != nil {
		options.Stderr = errOut
	}
	done := make(chan struct{})
	if resize != nil {
		sizes := make(chan runtime.Size)
		options.Resize = sizes
		go func() {
			defer close(sizes)
			for {
				select {
				case size, ok := <-resize:
					if !ok {
						return
					}
					select {
					case sizes <- runtime.Size(size):
					case <-done:
						return
					}
				case <-done:
					return
				}
			}
		}()
	}
	return options, func() { close(done) }
}

// PortForward copies between a stream and a port of the pod until either end closes.
func (s streams) PortForward(ctx context.Context, _, uid string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	pod, err := s.engine.Pod(ctx, types.UID(uid))
	if err != nil {
		return err
	}
	sandbox := pod.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running {
		return errors.New("the pod does not run")
	}
	conn, err := s.engine.Dial(ctx, sandbox.ID, port)
	if err != nil {
		return fmt.Errorf("connect to port %d of the pod: %w", port, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, conn)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
