// Package scheduler is kube-scheduler: it gives every pod that has none a node.
//
// Watches fill the snapshot and the queue; one loop takes a pod from the queue, decides by a pure cycle over the
// snapshot, and assumes the pod to be where it decided, while bindings and refusals are written beside it.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/leader"
)

// patience is how long a pod stays unschedulable before it is tried again without a reason.
const patience = 5 * time.Minute

// Scheduler gives pods nodes. Make it with New and run it once.
type Scheduler struct {
	config   Config
	client   kubernetes.Interface
	profiles map[string]*profile
	queue    *queue.Queue
	metrics  *metrics
	recorder map[string]events.EventRecorderLogger // by profile
	synced   atomic.Bool
	leads    atomic.Bool
	pods     atomic.Pointer[cache.Store] // that the API server has; nil before they are watched
	writes   errgroup.Group
	serving  *certs.Files // nil for a self-signed certificate

	// mu guards what follows: watches change it, cycles read it.
	mu          sync.Mutex
	snapshot    *snapshot.Snapshot
	nominations nominations
	start       int
	seed        uint64
}

// New makes a scheduler; it reads files but does not yet talk to the API server.
func New(c Config) (*Scheduler, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	profiles, hints, err := build(&c)
	if err != nil {
		return nil, err
	}
	serving, err := certs.Serving(c.CertFile, c.KeyFile, c.Clock)
	if err != nil {
		return nil, err
	}
	if c.Leader.Elect {
		c.Leader.Watchdog = leader.NewWatchdog()
	}
	s := &Scheduler{
		config:      c,
		client:      c.Client,
		profiles:    profiles,
		snapshot:    snapshot.New(),
		nominations: newNominations(),
		seed:        c.Seed,
		serving:     serving,
	}
	s.queue = queue.New(queue.Config{
		Clock:          c.Clock,
		Hints:          hints,
		Gate:           func(p *snapshot.Pod) string { return profiles[p.Obj.Spec.SchedulerName].gatedBy(p) },
		InitialBackoff: c.InitialBackoff,
		MaxBackoff:     c.MaxBackoff,
		Patience:       patience,
		Incoming:       func(to, cause string) { s.metrics.incoming.WithLabelValues(to, cause).Inc() },
	})
	s.metrics = newMetrics(s.queue)
	s.writes.SetLimit(c.Writers)
	return s, nil
}

// Run schedules until ctx ends; it returns an error if it can't start or loses leadership.
func (s *Scheduler) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if err := s.serve(ctx, group); err != nil {
		return err
	}
	stop := s.record(ctx)
	defer stop()
	group.Go(func() error {
		err := s.work(ctx)
		if err == nil && ctx.Err() == nil {
			err = errStopped
		}
		return err
	})
	if err := group.Wait(); !errors.Is(err, errStopped) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// errStopped makes the health server end with the work.
var errStopped = errors.New("stopped")

// work watches, and schedules while it leads.
func (s *Scheduler) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	feeds, err := s.watch(ctx)
	if err != nil {
		cancel()
		return err
	}
	defer feeds.Shutdown()
	defer cancel()
	feeds.StartWithContext(ctx)
	if !cache.WaitFor(ctx, "", feeds.synced...) {
		return nil
	}
	s.synced.Store(true)
	return leader.Run(ctx, s.config.Leader, s.client, s.config.Identity, s.lead)
}

// lead schedules until ctx ends.
func (s *Scheduler) lead(ctx context.Context) error {
	s.leads.Store(true)
	defer s.leads.Store(false)
	s.metrics.leader.Set(1)
	defer s.metrics.leader.Set(0)
	var waking sync.WaitGroup
	waking.Go(func() { s.queue.Run(ctx) })
	defer waking.Wait()
	defer func() { _ = s.writes.Wait() }()
	for {
		item, err := s.queue.Pop(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx ended
		}
		s.try(ctx, item)
	}
}

// try decides for one pod and has the decision written.
func (s *Scheduler) try(ctx context.Context, item *queue.Item) {
	began := s.config.Clock.Now()
	pod := item.Pod
	d := s.decide(item)
	if d == nil {
		s.queue.Done(item)
		return
	}
	took := s.config.Clock.Since(began)
	s.metrics.algorithm.Observe(took.Seconds())
	if d.Node != "" {
		s.writes.Go(func() error {
			s.bind(ctx, item, pod, d, began)
			return nil
		})
		return
	}
	s.metrics.attempt("unschedulable", pod.Obj.Spec.SchedulerName, took)
	s.writes.Go(func() error {
		s.refuse(ctx, item, pod, d)
		return nil
	})
}

// decide runs a cycle and assumes its result; nil means that the pod needs no node any more.
func (s *Scheduler) decide(item *queue.Item) *cycle.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.Deleted(item) || item.Pod.Terminating() {
		return nil
	}
	s.seed++
	d := s.profiles[item.Pod.Obj.Spec.SchedulerName].cycle.Schedule(s.snapshot, cycle.Request{
		Pod:         item.Pod,
		Nominations: s.nominations.byNode,
		Nominated:   s.nominations.node(item.Pod),
		Start:       s.start,
		Seed:        s.seed,
	})
	s.start = d.Next
	if d.Node != "" {
		s.snapshot.Assume(item.Pod, d.Node)
		s.nominations.remove(item.Pod.UID())
	} else if d.Room != nil && d.Room.Node != "" {
		s.nominations.set(item.Pod, d.Room.Node)
	} else if d.Room != nil && !d.Room.KeepNomination {
		s.nominations.remove(item.Pod.UID())
	}
	return d
}

// Explain decides for a pod as the next cycle would, changes nothing, and tells for every node why not, or how well.
func (s *Scheduler) Explain(obj *v1.Pod) (*cycle.Decision, error) {
	p, ok := s.profiles[obj.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile for schedulerName %q", obj.Spec.SchedulerName)
	}
	pod := snapshot.NewPod(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.cycle.Schedule(s.snapshot, cycle.Request{
		Pod: pod, Nominations: s.nominations.byNode, Nominated: s.nominations.node(pod), Start: s.start, Seed: s.seed + 1, Explain: true,
	}), nil
}

func (s *Scheduler) listen() (net.Listener, error) {
	if s.config.Listener != nil || s.config.SecurePort == 0 {
		return s.config.Listener, nil
	}
	address := net.JoinHostPort(s.config.BindAddress, strconv.Itoa(s.config.SecurePort))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return l, nil
}
