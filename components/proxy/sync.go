package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/proxy/compile"
	"quintet.dev/quintet/components/proxy/conntrack"
	"quintet.dev/quintet/components/proxy/healthcheck"
	"quintet.dev/quintet/components/proxy/nft"
)

const (
	// checkPeriod is how often the kernel is asked whether the rules are still there.
	checkPeriod = 5 * time.Second
	// retryPeriod is how long a failed sync waits for the next.
	retryPeriod = time.Second
)

// event is one change that a watch told of.
type event struct {
	apply func(*compile.Tracker)
	// trigger is when the cause of a change of endpoints came about; zero where it is not known.
	trigger time.Time
	service bool // a Service and not its endpoints
	node    *v1.Node
}

// syncer is the state of Run's one goroutine that writes rules.
type syncer struct {
	p        *Proxy
	tracker  *compile.Tracker
	node     *v1.Node
	tables   map[v1.IPFamily]*nft.Table
	services *healthcheck.Services
	flows    conntrack.Kernel
	triggers []time.Time
	failed   bool
}

// sync follows the API and keeps the rules.
func (p *Proxy) sync(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // for an error of watch
	events := make(chan event, 1024)
	watching, err := p.watch(ctx, events)
	if err != nil {
		return err
	}
	defer func() {
		cancel() // Informers end with the context only.
		watching.stop()
	}()
	s := &syncer{p: p, tracker: compile.New(compile.Node{Name: p.name}, ""), tables: map[v1.IPFamily]*nft.Table{}}
	if err := s.gather(ctx, events, watching); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if s.flows = p.config.Flows; s.flows == nil {
		kernel, err := conntrack.NewNetlink()
		if err != nil {
			return fmt.Errorf("connection tracking: %w", err)
		}
		defer kernel.Close()
		s.flows = kernel
	}
	s.services = healthcheck.NewServices(healthcheck.NodeAddresses(p.config.nodePortRanges(), p.nodeIPs(s.node)), p.health.Healthy)
	defer s.services.Close()
	return s.loop(ctx, events)
}

// gather takes events in until all objects are known, and the node's addresses are or were waited for long enough.
func (s *syncer) gather(ctx context.Context, events <-chan event, watching *watching) error {
	giveUp := s.p.config.Clock.NewTimer(patience)
	defer giveUp.Stop()
	waiting, synced := true, watching.synced
	for synced != nil || waiting && len(s.p.nodeIPs(s.node)) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			s.take(e)
		case <-synced:
			synced = nil
		case <-giveUp.C():
			waiting = false
		}
	}
	return nil
}

// open makes the tables. A family that the kernel lacks is left out unless the node has addresses of it.
func (s *syncer) open(ctx context.Context) error {
	needed := map[v1.IPFamily]bool{}
	for _, ip := range s.p.nodeIPs(s.node) {
		needed[map[bool]v1.IPFamily{true: v1.IPv4Protocol, false: v1.IPv6Protocol}[ip.Is4()]] = true
	}
	if len(needed) == 0 {
		klog.FromContext(ctx).Info("The node has no address; node ports are not served", "node", s.p.name)
	}
	for _, family := range []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol} {
		kernel, err := s.p.config.Open(family)
		if err != nil && needed[family] {
			return err
		}
		if err != nil {
			klog.FromContext(ctx).Info("The machine has no nftables of a family", "family", family, "err", err)
			continue
		}
		config, err := s.p.tableConfig(family, s.node)
		if err != nil {
			return err
		}
		s.tables[family] = nft.New(config, kernel)
	}
	if len(s.tables) == 0 {
		return errors.New("no IP family is supported by this machine's nftables")
	}
	return nil
}

// loop syncs after changes, at most every MinSyncPeriod, and brings back what others removed from the kernel.
func (s *syncer) loop(ctx context.Context, events <-chan event) error {
	log, clock := klog.FromContext(ctx), s.p.config.Clock
	check := clock.NewTicker(checkPeriod)
	defer check.Stop()
	next := clock.NewTimer(0) // of the sync that is due
	defer next.Stop()
	due := true
	last := clock.Now().Add(-s.p.config.MinSyncPeriod)
	schedule := func(after time.Duration) {
		if !due {
			due = true
			next.Reset(max(after, s.p.config.MinSyncPeriod-clock.Since(last)))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			s.take(e)
			s.queued()
			schedule(0)
		case <-check.C():
			if !s.intact(ctx) {
				schedule(0)
			}
		case <-next.C():
			due = false
			s.drain(events)
			last = clock.Now()
			if err := s.write(ctx); err != nil {
				log.Error(err, "Failed to sync rules; retrying", "after", retryPeriod)
				schedule(retryPeriod)
			}
		}
	}
}

// drain takes in what came meanwhile, so that one transaction holds it all.
func (s *syncer) drain(events <-chan event) {
	for {
		select {
		case e := <-events:
			s.take(e)
		default:
			return
		}
	}
}

func (s *syncer) take(e event) {
	if e.node != nil {
		s.node = e.node
		s.tracker.SetNode(compile.NodeOf(e.node))
		s.p.health.SyncNode(e.node)
		return
	}
	e.apply(s.tracker)
	s.p.metrics.changed(e.service)
	if !e.trigger.IsZero() {
		s.triggers = append(s.triggers, e.trigger)
	}
}

// intact looks whether the kernel's tables are as they were left, and has those that are not written anew.
func (s *syncer) intact(ctx context.Context) bool {
	whole := true
	for family, table := range s.tables {
		ok, err := table.Check(ctx)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to check rules", "family", family)
			continue
		}
		if !ok {
			klog.FromContext(ctx).Info("Rules were changed by another program; writing them anew", "family", family)
			table.Invalidate()
			whole = false
		}
	}
	return whole
}

// write brings the kernel up to date.
func (s *syncer) write(ctx context.Context) error {
	began := s.p.config.Clock.Now()
	changes := s.tracker.Take()
	var errs []error
	for family, table := range s.tables {
		if err := table.Sync(ctx, changes.Updated, changes.Deleted); err != nil {
			errs = append(errs, fmt.Errorf("family %s: %w", family, err))
			s.p.metrics.failures.Inc()
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.failed = true
		return err
	}
	if s.failed || changes.UDP {
		s.forgetFlows(ctx)
	}
	s.failed = false
	s.syncHealthChecks(ctx)
	for family := range s.tables {
		s.p.health.Updated(family)
	}
	s.p.metrics.synced(began, s.p.config.Clock, s.triggers)
	s.triggers = s.triggers[:0]
	return nil
}

// queued takes note that rules are behind the API.
func (s *syncer) queued() {
	for family := range s.tables {
		s.p.health.QueuedUpdate(family)
	}
}

// forgetFlows ends tracked UDP flows to endpoints that are gone.
func (s *syncer) forgetFlows(ctx context.Context) {
	table := conntrack.NewTable(s.tracker.All(), s.tracker.ServingIPs)
	for family := range s.tables {
		if _, err := conntrack.Clean(s.flows, family, table); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to delete stale connections", "family", family)
		}
	}
}

// syncHealthChecks serves the health check node ports; one that can't be opened is tried again at the next sync.
func (s *syncer) syncHealthChecks(ctx context.Context) {
	services := map[types.NamespacedName]healthcheck.Service{}
	for name, of := range s.tracker.HealthChecks() {
		services[name] = healthcheck.Service(of)
	}
	if err := s.services.Sync(ctx, services); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to serve health check node ports")
	}
}

// serviceEvent and sliceEvent say what a watch told of.
func serviceEvent(svc *v1.Service, deleted bool) event {
	return event{service: true, apply: func(t *compile.Tracker) {
		if deleted {
			t.DeleteService(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		} else {
			t.SetService(svc)
		}
	}}
}

func sliceEvent(slice *discoveryv1.EndpointSlice, deleted bool) event {
	e := event{apply: func(t *compile.Tracker) {
		if deleted {
			t.DeleteSlice(types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name})
		} else {
			t.SetSlice(slice)
		}
	}}
	if text := slice.Annotations[v1.EndpointsLastChangeTriggerTime]; text != "" && !deleted {
		e.trigger, _ = time.Parse(time.RFC3339Nano, text) // what another program wrote there means nothing to rules
	}
	return e
}
