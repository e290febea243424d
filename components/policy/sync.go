package policy

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/policy/compile"
	"quintet.dev/quintet/components/policy/nft"
)

// retryPeriod is how long a failed sync waits for the next.
const retryPeriod = time.Second

// event is one watch event.
type event func(context.Context, *compile.Index)

// syncer is the state of Run's one goroutine that writes rules.
type syncer struct {
	p     *Policy
	index *compile.Index
	table *nft.Table
}

// sync follows the API and keeps the rules. Those of a former run stay until all objects are known.
func (p *Policy) sync(ctx context.Context, table *nft.Table) error {
	events := make(chan event, 1024)
	watching, err := p.watch(ctx, events)
	if err != nil {
		return err
	}
	defer watching.stop()
	log := klog.FromContext(ctx)
	log.Info("Waiting for the API server's objects; rules of a former run stay in force", "node", p.node)
	s := &syncer{p: p, index: compile.New(), table: table}
	for synced := false; !synced; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			e(ctx, s.index)
		case <-watching.synced:
			synced = true
		}
	}
	log.Info("Enforcing NetworkPolicies", "node", p.node)
	return s.loop(ctx, events)
}

// loop syncs after changes, at most every MinSyncPeriod, and brings back what others removed from the kernel.
func (s *syncer) loop(ctx context.Context, events <-chan event) error {
	log, clock := klog.FromContext(ctx), s.p.config.Clock
	check := clock.NewTicker(s.p.config.CheckPeriod)
	defer check.Stop()
	next := clock.NewTimer(0) // of the sync that is due
	defer next.Stop()
	due, unchecked := true, false
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
			e(ctx, s.index)
			schedule(0)
		case <-check.C():
			unchecked = true
		case <-next.C():
			due = false
			s.drain(ctx, events)
			last = clock.Now()
			if err := s.write(ctx); err != nil {
				log.Error(err, "Failed to sync rules; retrying", "after", retryPeriod)
				schedule(retryPeriod)
			}
		}
		// While changes are due, the table is behind the model that it is compared with.
		if unchecked && !due {
			if unchecked = false; !s.check(ctx) {
				schedule(0)
			}
		}
	}
}

// drain applies the events that are queued already, so that one transaction holds them all. It takes no more than
// these: events that come all the time must not put a sync off.
func (s *syncer) drain(ctx context.Context, events <-chan event) {
	for range len(events) {
		e := <-events
		e(ctx, s.index)
	}
}

// check deletes objects of the table that are not used any more, and tells whether the kernel's table is as it was
// left. The next sync replaces one that is not. A check that fails counts as a failed sync: rules may be missing.
func (s *syncer) check(ctx context.Context) bool {
	log := klog.FromContext(ctx)
	if err := s.table.Sweep(ctx); err != nil {
		log.V(2).Info("Failed to delete unused rules; retrying", "err", err)
	}
	intact, err := s.table.Check(s.index.Current())
	s.p.health.synced(err)
	switch {
	case err != nil:
		s.p.metrics.failures.Inc()
		log.Error(err, "Failed to check rules; retrying", "after", s.p.config.CheckPeriod)
		return true
	case !intact:
		s.p.metrics.restores.Inc()
		log.Info("Another program changed the rules; replacing the table")
		s.table.Invalidate()
	}
	return intact
}

// write brings the kernel up to date.
func (s *syncer) write(ctx context.Context) error {
	began := s.p.config.Clock.Now()
	m, changes := s.index.Current(), s.index.Take()
	err := s.table.Sync(ctx, m, changes)
	s.p.health.synced(err)
	s.p.metrics.synced(s.p.config.Clock.Since(began), began, m, err)
	if err == nil {
		s.deleteConnections(ctx, changes.Ended)
	}
	return err
}

// deleteConnections keeps the next pod of an address from packets of connections of the former one, which would pass
// as established. It does its best: after a failure, connections last until they time out.
func (s *syncer) deleteConnections(ctx context.Context, ended map[netip.Addr]struct{}) {
	if len(ended) == 0 {
		return
	}
	log := klog.FromContext(ctx)
	deleted, err := s.p.config.Connections.Delete(ended)
	if err != nil {
		log.Error(err, "Failed to delete connections of ended pods", "addresses", len(ended))
		return
	}
	log.V(2).Info("Deleted connections of ended pods", "addresses", len(ended), "connections", deleted)
}
