package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"quintet.dev/quintet/cluster/internal/backend"
)

// instance is one member: a program that runs, or ended.
type instance struct {
	member  backend.Member
	dir     string
	program Program
	listen  func() (net.Listener, error)
	log     logBuffer

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{} // closed when the program returned
	err    error         // of the last run; read after done
}

func (i *instance) Name() string { return i.member.Name }

// Start runs the program. Its lifetime is not bound to ctx, which is that of the call.
func (i *instance) Start(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running() {
		return nil
	}
	listener, err := i.listen()
	if err != nil {
		return fmt.Errorf("start %s: %w", i.member.Name, err)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&i.log),
		textlogger.Verbosity(verbosity(i.member.Args))))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	i.cancel, i.done, i.err = cancel, make(chan struct{}), nil
	go i.run(ctx, Process{Member: i.member, Dir: i.dir, Listener: listener, Log: &i.log}, i.done)
	return nil
}

// ComponentLabel is the label that the samples of CPU profiles have of the members' components: all goroutines that a
// member starts inherit it.
const ComponentLabel = "component"

// errGoexit is how a program ends that calls t.FailNow, for instance.
var errGoexit = errors.New("the program ended its goroutine (runtime.Goexit, t.FailNow) instead of returning an error")

func (i *instance) run(ctx context.Context, p Process, done chan<- struct{}) {
	err := errGoexit
	defer func() { i.ended(ctx, err, done) }()
	pprof.Do(ctx, pprof.Labels(ComponentLabel, i.member.Component), func(ctx context.Context) { err = i.call(ctx, p) })
}

// ended notes how the program ended.
func (i *instance) ended(ctx context.Context, err error, done chan<- struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if ctx.Err() == nil {
		i.err = err
		if err != nil {
			fmt.Fprintln(&i.log, err)
		}
	}
	i.cancel()
	close(done)
}

// call runs the program. A panic of its goroutine is its error: it must not end the process of the other members.
func (i *instance) call(ctx context.Context, p Process) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			_, _ = i.log.Write(debug.Stack())
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return i.program(ctx, p)
}

// verbosity is the level that a program's arguments ask for, as --v=N; the logger is made before they are parsed.
func verbosity(args []string) int {
	level := 0
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, "--v="); ok {
			level, _ = strconv.Atoi(text) // the program reports its own error
		}
	}
	return level
}

// running must be called with mu held.
func (i *instance) running() bool {
	if i.done == nil {
		return false
	}
	select {
	case <-i.done:
		return false
	default:
		return true
	}
}

func (i *instance) Stop(ctx context.Context, grace time.Duration) error {
	i.mu.Lock()
	cancel, done := i.cancel, i.done
	i.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", i.member.Name, ctx.Err())
	case <-time.After(grace):
		return fmt.Errorf("stop %s: still running %s after it was asked to end", i.member.Name, grace)
	}
}

// Kill is Stop: a goroutine can't be ended from outside.
func (i *instance) Kill(ctx context.Context) error { return i.Stop(ctx, closeGrace) }

func (i *instance) Pause(context.Context) error   { return i.unsupported("pause") }
func (i *instance) Unpause(context.Context) error { return i.unsupported("unpause") }

func (i *instance) Exec(context.Context, []string, io.Reader) (backend.ExecResult, error) {
	return backend.ExecResult{}, i.unsupported("exec")
}

func (i *instance) unsupported(verb string) error {
	return fmt.Errorf("%s %s: %w: it runs inside this process; use a member in a container", verb, i.member.Name,
		backend.ErrUnsupported)
}

func (i *instance) Logs(ctx context.Context, follow bool, to io.Writer) error {
	i.mu.Lock()
	done := i.done
	i.mu.Unlock()
	if !follow {
		done = nil
	}
	return i.log.copy(ctx, to, done)
}

func (i *instance) ReadFile(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(i.dir, name))
}

func (i *instance) WriteFile(_ context.Context, name string, content []byte) error {
	return writeFile(filepath.Join(i.dir, name), content)
}

func (i *instance) State(context.Context) (backend.State, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	state := backend.State{Running: i.running()}
	if i.err != nil {
		state.ExitCode, state.Error = 1, i.err.Error()
	}
	return state, nil
}
