package boot

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	restartBackoffMin = 250 * time.Millisecond
	restartBackoffMax = 10 * time.Second
	// steadyAfter is how long a service must run to be restarted at once when it ends.
	steadyAfter = 10 * time.Second
	// stopGrace is what a service gets between SIGTERM and SIGKILL.
	stopGrace = 10 * time.Second
	// restartPreparation bounds what is done before a service is started again.
	restartPreparation = 15 * time.Second
)

// service is one supervised program. output is not closed.
type service struct {
	name   string
	argv   []string
	output *os.File
	// beforeRestart is called before each start but the first; nil for nothing. The service is started when it returns,
	// which it does soon after ctx has ended.
	beforeRestart func(ctx context.Context) error
}

// supervisor keeps services running. It is safe for concurrent use.
type supervisor struct {
	reaper *reaper

	mu    sync.Mutex
	units []*unit // in the order of their start; they are stopped in reverse
}

// unit is a service and the goroutine that keeps it; the goroutine exists until it is told to quit.
type unit struct {
	service
	mu     sync.Mutex
	quit   chan ending   // gets one value to stop it; nil when stopped
	ended  chan struct{} // closed when the goroutine is over
	pid    int           // 0 between runs
	starts int
}

func newSupervisor(r *reaper) *supervisor { return &supervisor{reaper: r} }

// add starts s and keeps it running from now on.
func (s *supervisor) add(svc service) error {
	if _, err := exec.LookPath(svc.argv[0]); err != nil {
		return fmt.Errorf("service %s: %w", svc.name, err)
	}
	u := &unit{service: svc}
	s.mu.Lock()
	s.units = append(s.units, u)
	s.mu.Unlock()
	u.start(s.reaper)
	return nil
}

func (s *supervisor) find(name string) (*unit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.units {
		if u.name == name {
			return u, nil
		}
	}
	return nil, fmt.Errorf("no service %q; `node-init status` lists them", name)
}

func (s *supervisor) start(name string) error {
	u, err := s.find(name)
	if err == nil {
		u.start(s.reaper)
	}
	return err
}

func (s *supervisor) stop(name string) error {
	u, err := s.find(name)
	if err == nil {
		u.stop()
	}
	return err
}

// announceShutdown tells a service by SIGPWR that the machine shuts down, and returns when it has
// ended, or after grace. It is not started again.
func (s *supervisor) announceShutdown(name string, grace time.Duration) {
	u, err := s.find(name)
	if err != nil {
		return // the node did not get as far as that
	}
	u.end(unix.SIGPWR, grace)
}

// stopAll stops the services in the reverse order of their start.
func (s *supervisor) stopAll() {
	s.mu.Lock()
	units := s.units
	s.mu.Unlock()
	for i := len(units) - 1; i >= 0; i-- {
		units[i].stop()
	}
}

// status has one line per service.
func (s *supervisor) status() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, u := range s.units {
		u.mu.Lock()
		state := "stopped"
		if u.quit != nil {
			state = "restarting"
			if u.pid != 0 {
				state = fmt.Sprintf("running pid=%d", u.pid)
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s starts=%d", u.name, state, u.starts))
		u.mu.Unlock()
	}
	return lines
}

func (u *unit) start(r *reaper) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.quit != nil {
		return
	}
	u.quit, u.ended = make(chan ending, 1), make(chan struct{})
	go u.keep(r, u.quit, u.ended)
}

// ending is how a process is asked to end, and how long it gets to.
type ending struct {
	signal unix.Signal
	grace  time.Duration
}

// stop ends the service and returns when its process is gone.
func (u *unit) stop() { u.end(unix.SIGTERM, stopGrace) }

// end ends the service by a signal, and by SIGKILL after grace, and returns when its process is gone.
func (u *unit) end(signal unix.Signal, grace time.Duration) {
	u.mu.Lock()
	quit, ended := u.quit, u.ended
	u.quit = nil
	u.mu.Unlock()
	if quit != nil {
		quit <- ending{signal, grace}
		<-ended
	}
}

func (u *unit) keep(r *reaper, quit <-chan ending, ended chan<- struct{}) {
	defer close(ended)
	backoff := restartBackoffMin
	for {
		if !u.prepareRestart(quit) {
			return
		}
		began := time.Now()
		if !u.runOnce(r, quit) {
			return
		}
		if time.Since(began) > steadyAfter {
			backoff = restartBackoffMin
		}
		select {
		case <-quit:
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, restartBackoffMax)
	}
}

// prepareRestart does what comes before a restart, and tells whether the service should run. A failure is no reason not
// to.
func (u *unit) prepareRestart(quit <-chan ending) bool {
	u.mu.Lock()
	first := u.starts == 0
	u.mu.Unlock()
	if first || u.beforeRestart == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), restartPreparation)
	defer cancel()
	prepared := make(chan error, 1)
	go func() { prepared <- u.beforeRestart(ctx) }()
	select {
	case err := <-prepared:
		if err != nil {
			fmt.Fprintf(os.Stderr, "node-init: service %s: before its restart: %v\n", u.name, err)
		}
		return true
	case <-quit:
		cancel()
		<-prepared
		return false
	}
}

// runOnce runs the service to its end and tells whether it should run again.
func (u *unit) runOnce(r *reaper, quit <-chan ending) bool {
	cmd := exec.Command(u.argv[0], u.argv[1:]...)
	cmd.Stdout, cmd.Stderr = u.output, u.output
	process, done, err := r.start(cmd)
	if err != nil {
		fmt.Fprintf(os.Stderr, "node-init: service %s: %v\n", u.name, err)
		return true
	}
	u.running(process.Pid)
	defer u.running(0)
	var how ending
	select {
	case exit := <-done:
		fmt.Fprintf(os.Stderr, "node-init: service %s ended (code %d, signal %d); it is started again\n", u.name,
			exit.Code, exit.Signal)
		return true
	case how = <-quit:
	}
	_ = process.Signal(how.signal)
	select {
	case <-done:
	case <-time.After(how.grace):
		_ = process.Signal(unix.SIGKILL)
		<-done
	}
	return false
}

func (u *unit) running(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pid = pid
	if pid != 0 {
		u.starts++
	}
}
