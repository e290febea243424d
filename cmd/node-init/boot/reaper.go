package boot

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper waits for every child of this process: those it started, and the orphans that the kernel hands to process 1.
// All waiting happens here, because a wait for any child would steal the exit status from os/exec; for the same reason
// a process has one reaper at most.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan<- exitStatus
}

// exitStatus is how a child ended.
type exitStatus struct {
	Code   int
	Signal unix.Signal // 0 when it exited by itself
}

func newReaper() *reaper {
	r := &reaper{children: map[int]chan<- exitStatus{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			r.reap()
		}
	}()
	return r
}

// start starts cmd and returns its process and a channel that gets its exit status once.
func (r *reaper) start(cmd *exec.Cmd) (*os.Process, <-chan exitStatus, error) {
	r.mu.Lock() // held over the start: reap must not see the end of a child before it is registered
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	done := make(chan exitStatus, 1)
	r.children[cmd.Process.Pid] = done
	return cmd.Process, done, nil
}

func (r *reaper) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r.mu.Lock()
		done, mine := r.children[pid]
		delete(r.children, pid)
		r.mu.Unlock()
		if mine {
			exit := exitStatus{Code: status.ExitStatus()}
			if status.Signaled() {
				exit.Signal = status.Signal()
			}
			done <- exit
		}
	}
}
