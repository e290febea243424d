// Package scheduler is kube-scheduler: it gives every pod that has none a node.
//
// Watches fill the snapshot and the queue; one loop takes a pod from the queue, decides by a pure cycle over the
// snapshot, and assumes the pod to be where it decided, while bindings and statuses are written concurrently.
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

	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/exposition"
	"quintet.dev/quintet/internal/leader"
)

// maxUnschedulable is how long a pod stays unschedulable before it is retried without an event.
const maxUnschedulable = 5 * time.Minute

// Scheduler gives pods nodes. Make it with New and run it once.
type Scheduler struct {
	config   Config
	client   kubernetes.Interface
	profiles map[string]*profile
	queue    *queue.Queue
	hints    queue.Hints
	metrics  *metrics
	recorder atomic.Pointer[map[string]events.EventRecorderLogger] // by profile
	running  atomic.Pointer[context.Context]
	synced   atomic.Bool
	leads    atomic.Bool
	pods     atomic.Pointer[cache.Store] // that the API server has; nil before they are watched
	writes   errgroup.Group              // short writes, a few at once
	bindings sync.WaitGroup              // of pods that wait before they are bound
	serving  certs.GetFunc               // nil for a self-signed certificate

	nominations  *nominations
	explanations *explanations

	// state guards what follows: watches change it, cycles read it.
	state    *stateLock
	snapshot *snapshot.Snapshot
	start    int
	seed     uint64
}

// New makes a scheduler; it reads files but does not yet talk to the API server.
func New(c Config, options ...Option) (*Scheduler, error) {
	c.Apply(options...)
	if err := c.complete(); err != nil {
		return nil, err
	}
	c.claims, c.working, c.devices = newClaimCounter(), newWorkGauge(), newDeviceMetrics()
	c.volumeErrors = newVolumeErrors()
	profiles, hints, err := build(&c)
	if err != nil {
		return nil, err
	}
	serving, err := c.Serving.Certificates(lease, c.Clock)
	if err != nil {
		return nil, err
	}
	if c.Leader.Elect {
		c.Leader.Watchdog = leader.NewWatchdog()
	}
	s := &Scheduler{
		config:   c,
		client:   c.Client,
		profiles: profiles,
		state:    newStateLock(),
		snapshot: snapshot.New(),
		seed:     c.Seed,
		serving:  serving,

		nominations:  newNominations(),
		explanations: newExplanations(),
	}
	measured := newPluginMetrics()
	s.queue = queue.New(queue.Config{
		Clock: c.Clock,
		Hints: hints,
		Gate: func(p *snapshot.Pod) (plugin, reason string) {
			return profiles[p.Obj.Spec.SchedulerName].gatedBy(p)
		},
		InitialBackoff:   c.InitialBackoff,
		MaxBackoff:       c.MaxBackoff,
		MaxUnschedulable: c.MaxUnschedulable,
		Less:             profiles[c.Profiles[0].Name].sorts[0].Less,
		Hinted:           measured.hinted,
		Incoming:         func(to, cause string) { s.metrics.incoming.WithLabelValues(to, cause).Inc() },
	})
	s.metrics = newMetrics(append(measured.collectors(), newState(s.queue, s.sizes), c.claims, c.working,
		c.devices.waits, c.devices.took, c.volumeErrors, exposition.BuildInfo(), exposition.Features(c.gates.all()),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	for name, p := range profiles {
		observer := &profileObserver{pluginMetrics: measured, clock: c.Clock, profile: name}
		p.cycle.Observer, p.commit.Observer = observer, observer
	}
	s.hints = hints
	s.writes.SetLimit(c.Writers)
	for _, p := range profiles {
		p.cycle.Release = s.state.release
	}
	c.handles.Scheduler = s
	return s, nil
}

// Run schedules until ctx ends; it returns an error if it can't start or loses leadership.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.config.WriteConfigTo != "" {
		return s.config.write()
	}
	group, ctx := errgroup.WithContext(ctx)
	s.running.Store(&ctx)
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
	lead := s.lead
	if s.config.DelayCacheUntilActive && s.config.Leader.Elect {
		s.synced.Store(true) // a follower is ready to take over
		lead = s.watchAndLead
	} else {
		ctx, cancel := context.WithCancel(ctx)
		feeds, err := s.watch(ctx)
		if err != nil {
			cancel()
			return err
		}
		defer feeds.shutdown()
		defer cancel()
		if !feeds.start(ctx) {
			return nil
		}
		s.synced.Store(true)
		s.tellSynced()
	}
	return leader.Run(ctx, s.config.Leader, s.client, s.config.Identity, lead)
}

// watchAndLead begins to watch once it leads.
func (s *Scheduler) watchAndLead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	feeds, err := s.watch(ctx)
	if err != nil {
		cancel()
		return err
	}
	defer feeds.shutdown()
	defer cancel()
	if !feeds.start(ctx) {
		return nil
	}
	s.tellSynced()
	return s.lead(ctx)
}

func (s *Scheduler) tellSynced() {
	if s.config.Synced != nil {
		s.config.Synced()
	}
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
	defer func() {
		s.bindings.Wait()
		_ = s.writes.Wait()
	}()
	for {
		item, err := s.queue.Pop(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx ended
		}
		s.try(ctx, item)
	}
}

// try decides for one pod and has the decision carried out.
func (s *Scheduler) try(ctx context.Context, item *queue.Item) {
	a := &attempt{item: item, pod: item.Pod, profile: s.profiles[item.Pod.Obj.Spec.SchedulerName],
		began: s.config.Clock.Now()}
	if !s.decide(ctx, a) {
		s.queue.Done(item)
		return
	}
	took := s.config.Clock.Since(a.began)
	s.metrics.algorithm.Observe(took.Seconds())
	switch {
	case a.status != nil:
		s.writes.Go(func() error {
			s.fail(ctx, a, a.status)
			return nil
		})
	case a.placement != nil:
		s.carryOut(ctx, a)
	default:
		s.metrics.attempt("unschedulable", a.pod.Obj.Spec.SchedulerName, took)
		s.writes.Go(func() error {
			s.refuse(ctx, a)
			return nil
		})
	}
}

// decide runs a cycle and assumes its result; false means that the pod needs no node any more.
func (s *Scheduler) decide(ctx context.Context, a *attempt) bool {
	s.state.lock()
	defer s.state.unlock()
	if s.queue.Deleted(a.item) || a.pod.Terminating() {
		return false
	}
	s.seed++
	a.measure = s.seed%measureEvery == 0
	d := a.profile.cycle.Schedule(s.snapshot, cycle.Request{
		Pod:         a.pod,
		Nominations: s.nominations.current(),
		Nominated:   s.nominations.node(a.pod),
		Start:       s.start,
		Seed:        s.seed,
		Measure:     a.measure,
	})
	a.decision, s.start = d, d.Next
	if d.PostFilterResult != nil {
		s.metrics.preempted.Inc()
	}
	switch result := d.PostFilterResult; {
	case d.Err != nil:
		a.status = commit.Failed(d.FailedBy, d.Err)
	case d.Node != "":
		s.reserve(ctx, a)
	case result != nil && result.Node != "":
		s.nominations.set(a.pod, result.Node)
	case result != nil && !result.KeepNomination:
		s.nominations.remove(a.pod.UID())
	}
	return true
}

// sizes are those of the snapshot.
func (s *Scheduler) sizes() (nodes, pods, assumed int) {
	s.locked(func(now *snapshot.Snapshot) { nodes, pods, assumed = now.Sizes() })
	return nodes, pods, assumed
}

// Explain decides for a pod as the next cycle would, changes nothing, and tells for every node why not, or how well.
func (s *Scheduler) Explain(obj *v1.Pod) (*cycle.Decision, error) {
	p, ok := s.profiles[obj.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile for schedulerName %q", obj.Spec.SchedulerName)
	}
	pod := snapshot.NewPod(obj)
	s.state.lock()
	defer s.state.unlock()
	return p.cycle.Schedule(s.snapshot, cycle.Request{
		Pod: pod, Nominations: s.nominations.current(), Nominated: s.nominations.node(pod), Start: s.start,
		Seed: s.seed + 1, Explain: true,
	}), nil
}

func (s *Scheduler) listen() (net.Listener, error) {
	if s.config.Listener != nil || s.config.SecurePort == 0 {
		return s.config.Listener, nil
	}
	address := net.JoinHostPort(s.config.BindAddress, strconv.Itoa(s.config.SecurePort))
	l, err := s.config.Serving.Sharing.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return l, nil
}
