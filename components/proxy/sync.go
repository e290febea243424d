package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/proxy/compile"
	"quintet.dev/quintet/components/proxy/conntrack"
	"quintet.dev/quintet/components/proxy/healthcheck"
	"quintet.dev/quintet/components/proxy/nft"
)

const (
	// checkPeriod is how often the kernel is asked whether the rules are still there, and the machine for its
	// addresses.
	checkPeriod = 5 * time.Second
	// checkPause times as long as it took, a check waits for the next: what programs change rules all the time costs no
	// more than a hundredth of a processor, however many Services there are.
	checkPause = 100
	// firstRetry is how long the first failed sync waits for the next; each further one waits twice as long.
	firstRetry = time.Second
)

// syncer is the state of Run's one goroutine that writes rules.
type syncer struct {
	p            *Proxy
	tracker      *compile.Tracker
	node         *v1.Node // as it was known last, even when it is deleted
	serviceCIDRs serviceCIDRs
	families     []*familyState
	services     *healthcheck.Services
	flows        conntrack.Kernel
	retryAfter   time.Duration // of the last sync; 0 if it succeeded
}

// familyState is what there is of an IP family that the machine has.
type familyState struct {
	family v1.IPFamily
	table  *nft.Table
	// triggers are when causes of changes came about that are not in the kernel yet.
	triggers []time.Time
	// staleFlows is true where UDP endpoints may have gone since connections to such were ended last.
	staleFlows bool
	checkAfter time.Time
}

// sync follows the API and keeps the rules.
func (p *Proxy) sync(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // for an error of watch
	changes := make(chan event, 1024)
	watching, err := p.watch(ctx, changes)
	if err != nil {
		return err
	}
	defer func() {
		cancel() // Informers end with the context only.
		watching.stop()
	}()
	s := &syncer{p: p, tracker: compile.New(compile.Node{Name: p.name}, ""), serviceCIDRs: serviceCIDRs{}}
	if err := s.gather(ctx, changes, watching); err != nil {
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
	addresses := healthcheck.NodeAddresses(p.config.nodePortRanges(), p.nodeIPs(s.node))
	s.services = healthcheck.NewServices(addresses, p.health.Healthy)
	defer s.services.Close()
	return s.loop(ctx, changes)
}

// gather takes changes in until all objects are known, and the node's addresses are or were waited for long enough.
func (s *syncer) gather(ctx context.Context, changes <-chan event, watching *watching) error {
	giveUp := s.p.config.Clock.NewTimer(nodeAddressTimeout)
	defer giveUp.Stop()
	waiting, synced := true, watching.synced
	for synced != nil || waiting && len(s.p.knownNodeIPs(s.node)) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-changes:
			change(s)
		case <-synced:
			synced = nil
		case <-giveUp.C():
			waiting = false
		}
	}
	return nil
}

// open makes the tables. A family that the kernel lacks is left out, but not that of the node's primary address.
func (s *syncer) open(ctx context.Context) error {
	log := klog.FromContext(ctx)
	primary := s.p.nodeIPs(s.node)[0]
	if primary.IsLoopback() {
		log.Info("The node's address is not known, assuming loopback; --bind-address would set it", "node", s.p.name)
	}
	for _, family := range families() {
		rules, kernel, err := s.p.config.Open(family)
		if err != nil && familyOf(primary) == family {
			return err
		}
		if err != nil {
			log.Info("The machine has no nftables of a family", "family", family, "err", err)
			continue
		}
		config, err := s.p.tableConfig(family, s.node, s.serviceCIDRs)
		if err != nil {
			return err
		}
		s.families = append(s.families, &familyState{family: family, table: nft.New(config, rules, kernel)})
		s.p.metrics.serve(family)
	}
	return nil
}

// loop syncs after changes, at most every MinSyncPeriod, and brings back what others removed from the kernel.
func (s *syncer) loop(ctx context.Context, changes <-chan event) error {
	clock := s.p.config.Clock
	check := clock.NewTicker(checkPeriod)
	defer check.Stop()
	for _, f := range s.families {
		s.p.health.Updated(f.family) // From here on the health counts, even if no sync ever succeeds.
	}
	s.queued()
	next := clock.NewTimer(0) // of the sync that is due
	defer next.Stop()
	due := true
	last := clock.Now().Add(-s.p.config.MinSyncPeriod)
	schedule := func(after time.Duration) {
		s.queued()
		if !due {
			due = true
			next.Reset(max(after, s.p.config.MinSyncPeriod-clock.Since(last)))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-changes:
			if change(s) {
				schedule(0)
			}
		case <-check.C():
			if changed := s.reconfigure(ctx); changed || !s.intact(ctx) {
				schedule(0)
			}
		case <-next.C():
			due = false
			s.drain(changes)
			last = clock.Now()
			if err := s.write(ctx); err != nil {
				s.retryAfter = backOff(s.retryAfter, s.p.config.SyncPeriod)
				klog.FromContext(ctx).Error(err, "Failed to sync rules; retrying", "after", s.retryAfter)
				schedule(s.retryAfter)
			} else {
				s.retryAfter = 0
			}
		}
	}
}

// backOff is how long a failed sync waits for the next, after one that waited for so long.
func backOff(last, most time.Duration) time.Duration { return min(max(2*last, firstRetry), most) }

// drain takes in what came meanwhile, so that one transaction holds it all.
func (s *syncer) drain(changes <-chan event) {
	for {
		select {
		case change := <-changes:
			change(s)
		default:
			return
		}
	}
}

// reconfigure derives the tables' configuration again, and tells whether any is to be rewritten.
func (s *syncer) reconfigure(ctx context.Context) bool {
	changed := false
	for _, f := range s.families {
		config, err := s.p.tableConfig(f.family, s.node, s.serviceCIDRs)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Keeping the configuration of rules", "family", f.family)
			continue
		}
		if f.table.Reconfigure(config) {
			klog.FromContext(ctx).Info("The node's addresses or ranges changed; rewriting rules", "family", f.family)
			changed = true
		}
	}
	return changed
}

// intact looks whether the kernel's tables are as they were left, and has those that are not rewritten. A table that
// waits to be written is left to its sync.
func (s *syncer) intact(ctx context.Context) bool {
	clock := s.p.config.Clock
	whole := true
	for _, f := range s.families {
		if !f.table.Written() {
			continue
		}
		began := clock.Now()
		if began.Before(f.checkAfter) {
			continue
		}
		ok, err := f.table.Check()
		f.checkAfter = began.Add(checkPause * clock.Since(began))
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to check rules", "family", f.family)
			continue
		}
		if !ok {
			klog.FromContext(ctx).Info("Rules were changed by another program; rewriting them", "family", f.family)
			f.table.Invalidate()
			whole = false
		}
	}
	return whole
}

// write brings the kernel up to date. A family does not wait for another one that fails.
func (s *syncer) write(ctx context.Context) error {
	changes := s.tracker.Take()
	s.p.metrics.taken()
	var errs []error
	for _, f := range s.families {
		f.staleFlows = f.staleFlows || changes.UDP
		if err := s.writeFamily(ctx, f, changes); err != nil {
			errs = append(errs, fmt.Errorf("family %s: %w", f.family, err))
		}
	}
	s.forgetFlows(ctx)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.syncHealthChecks(ctx)
	return nil
}

func (s *syncer) writeFamily(ctx context.Context, f *familyState, changes compile.Changes) error {
	m, clock := s.p.metrics, s.p.config.Clock
	began := clock.Now()
	outcome, err := f.table.Sync(ctx, changes.Updated, changes.Deleted)
	now := clock.Now()
	m.timed(f.family, now.Sub(began), outcome.Full)
	if err != nil {
		m.failures.WithLabelValues(string(f.family)).Inc()
		return err
	}
	if outcome.CleanupErr != nil {
		m.cleanupFailures.WithLabelValues(string(f.family)).Inc()
		klog.FromContext(ctx).Error(outcome.CleanupErr, "Failed to clean up; retrying with the next sync",
			"family", f.family)
	}
	m.local(f.family, s.tracker.NoLocalEndpoints(f.family))
	m.synced(f.family, now, f.triggers)
	f.triggers = nil
	s.p.health.Updated(f.family)
	return nil
}

// queued takes note that rules are behind the API or what was written of it.
func (s *syncer) queued() {
	for _, f := range s.families {
		s.p.health.QueuedUpdate(f.family)
		s.p.metrics.queued(f.family, s.p.config.Clock.Now())
	}
}

// forgetFlows ends tracked UDP flows to endpoints that are gone, of the families whose rules are written.
func (s *syncer) forgetFlows(ctx context.Context) {
	var table *conntrack.Table
	for _, f := range s.families {
		if !f.staleFlows || !f.table.Written() {
			continue
		}
		if table == nil {
			table = conntrack.NewTable(s.tracker.All(), s.tracker.ServingIPs)
		}
		began := s.p.config.Clock.Now()
		deleted, err := conntrack.Clean(s.flows, f.family, table)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to delete stale connections", "family", f.family)
		}
		f.staleFlows = false
		s.p.metrics.flowsDuration.WithLabelValues(string(f.family)).Observe(s.p.config.Clock.Since(began).Seconds())
		s.p.metrics.deletedFlows.WithLabelValues(string(f.family)).Add(float64(deleted))
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
