package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement. It is killed when it is closed.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     bytes.Buffer
	started time.Time
	exited  chan error
}

// start runs a program with args.
func start(program string, args ...string) (*process, error) { return startWith(nil, program, args...) }

// startWith runs a program with args and more variables in its environment.
func startWith(env []string, program string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(program), cmd: exec.Command(program, args...), exited: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = withParent()
	p.cmd.Env = append(p.cmd.Environ(), env...)
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: run `make build` first", err)
		}
		return nil, err
	}
	go func() { p.exited <- p.cmd.Wait() }()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) close() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// poll asks done until it says yes, the program ends, or ctx does.
func (p *process) poll(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("%s ended: %v\n%s", p.name, err, p.log.String())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, ctx.Err(), p.log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// ready polls url until it answers 200 and returns the time since the process started.
func (p *process) ready(ctx context.Context, client *http.Client, url string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // or else each question takes a connection of its own
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return time.Since(p.started), nil
			}
		}
		select {
		case err := <-p.exited:
			p.exited <- err
			return 0, fmt.Errorf("%s ended: %v\n%s", p.name, err, p.log.String())
		case <-ctx.Done():
			return 0, fmt.Errorf("%s is not ready: %w", p.name, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// resident returns the resident memory of a process in MiB, peakResident the most that it had.
func resident(pid int) (float64, error) { return memory(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") }
func peakResident(pid int) (float64, error) {
	return memory(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:")
}

// machineMemory returns the memory of this machine in bytes.
func machineMemory() (float64, error) {
	mib, err := memory("/proc/meminfo", "MemTotal:")
	return mib * (1 << 20), err
}

// memory reads a line of a file as the kernel writes it, in MiB.
func memory(file, key string) (float64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, key)
}

// cpu returns the processor time that processes have used.
func cpu(pids ...int) (time.Duration, error) {
	var all time.Duration
	for _, pid := range pids {
		one, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		all += one
	}
	return all, nil
}

func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return worked(rest)
}

// worked is the processor time of a process, from proc_pid_stat(5) after its name.
func worked(stat string) (time.Duration, error) {
	fields := strings.Fields(stat)
	if len(fields) < 22 {
		return 0, fmt.Errorf("short stat of a process: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	const ticks = 100 // USER_HZ is 100 on every Linux that Go runs on
	return time.Duration(user+system) * time.Second / ticks, err
}
