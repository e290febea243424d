package score

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options of a recording; the zero value is that of most.
type Options struct {
	// MaxEntries bounds how many entries are kept: when there are more, the oldest are dropped, and counted. 0 means
	// DefaultMaxEntries. The last version of each object that exists is kept beside them.
	MaxEntries int
}

// DefaultMaxEntries is how many entries are kept unless Options say otherwise.
const DefaultMaxEntries = 100_000

// Recorder watches all resources of a cluster from Record until Stop. It is safe for concurrent use.
type Recorder struct {
	started   time.Time
	limit     int
	clients   clients
	cancel    context.CancelFunc
	following sync.WaitGroup // discovery and watches
	analysis  sync.WaitGroup
	arrivals  *arrivals
	rescan    chan struct{} // holds a value when resources may have come

	mu        sync.Mutex
	ended     time.Time // zero while it records
	entries   []Entry
	dropped   int
	gaps      []Gap
	unwatched map[string]string
	followed  map[resource]*follower
	more      chan struct{} // closed when there are more entries, or the recording ended
}

// Record starts to record. It returns once all resources are watched, so that nothing after it is missed; those that
// can't be watched are named in the score. ctx bounds the start alone: the caller ends the recording with Stop.
func Record(ctx context.Context, config *rest.Config, o Options) (*Recorder, error) {
	if o.MaxEntries < 0 {
		return nil, fmt.Errorf("record: MaxEntries must not be negative: %d", o.MaxEntries)
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	clients, err := newClients(running, config)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &Recorder{started: time.Now(), limit: o.MaxEntries, clients: clients, cancel: cancel, arrivals: newArrivals(),
		rescan: make(chan struct{}, 1), more: make(chan struct{}), unwatched: map[string]string{},
		followed: map[resource]*follower{}}
	r.analysis.Go(func() { r.analyze(running) })
	if err := r.start(ctx, running); err != nil {
		r.Stop()
		return nil, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

// start follows what there is, and what comes.
func (r *Recorder) start(ctx, running context.Context) error {
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	if err := r.discover(running, false); err != nil {
		return err
	}
	for _, f := range r.followers() {
		select {
		case <-f.ready:
		case <-ctx.Done():
			return fmt.Errorf("watch %s: %w", f.of, ctx.Err())
		}
	}
	r.following.Go(func() { r.keepDiscovering(running) })
	return nil
}

func (r *Recorder) followers() []*follower {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.followed))
}

// Stop ends the recording and returns the score. It waits for all that the recorder started; calling it again returns
// the same.
func (r *Recorder) Stop() *Score {
	r.cancel()
	r.following.Wait()
	r.arrivals.close()
	r.analysis.Wait()
	r.clients.http.CloseIdleConnections()
	r.finish()
	return r.Score()
}

func (r *Recorder) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.IsZero() {
		r.ended = time.Now()
		close(r.more)
	}
}

// Score is what was recorded until now. The caller owns it, but for what its entries point to, which is never changed.
func (r *Recorder) Score() *Score {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	if ended.IsZero() {
		ended = time.Now()
	}
	entries := slices.Clone(r.entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return compareTimes(a.At, b.At) })
	return &Score{APIVersion: APIVersion, Kind: Kind, Started: r.started, Ended: ended, Entries: entries,
		Dropped: r.dropped, Gaps: slices.Clone(r.gaps), Unwatched: maps.Clone(r.unwatched)}
}

func compareTimes(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ErrEnded says that a recording ended, and all its entries were returned.
var ErrEnded = errors.New("the recording ended")

// Next returns the entries from a position on, of which the first is 0, and the position after them. It waits until
// there is one; positions whose entries were dropped are passed over. It returns ErrEnded after the last.
func (r *Recorder) Next(ctx context.Context, from int) ([]Entry, int, error) {
	for {
		entries, next, more, ended := r.after(from)
		switch {
		case len(entries) > 0:
			return entries, next, nil
		case ended:
			return nil, next, ErrEnded
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, from, ctx.Err()
		}
	}
}

func (r *Recorder) after(from int) (entries []Entry, next int, more chan struct{}, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = r.dropped + len(r.entries)
	first := min(max(from-r.dropped, 0), len(r.entries))
	return slices.Clone(r.entries[first:]), next, r.more, !r.ended.IsZero()
}

// Settle waits until no change has come for a time, or ctx ends.
func (r *Recorder) Settle(ctx context.Context, quiet time.Duration) error {
	_, position, _, _ := r.after(0)
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		_, next, err := r.Next(waiting, position)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrEnded) || err != nil && r.arrivals.empty():
			return nil
		}
		position = next
	}
}

// part is what a live page learns with some entries.
func (r *Recorder) part(entries []Entry) part {
	r.mu.Lock()
	defer r.mu.Unlock()
	return part{Entries: entries, Dropped: r.dropped, Limit: r.limit, Gaps: slices.Clone(r.gaps),
		Unwatched: maps.Clone(r.unwatched)}
}

// since is the time of the recording, in ms.
func (r *Recorder) since(t time.Time) float64 { return float64(t.Sub(r.started).Microseconds()) / 1000 }

func (r *Recorder) add(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, entries...)
	if len(r.entries) > r.limit {
		excess := len(r.entries) - r.limit
		r.dropped += excess
		r.entries = r.entries[excess:]
	}
	close(r.more)
	r.more = make(chan struct{})
}

func (r *Recorder) addGap(g Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps = append(r.gaps, g)
}

// mayHaveResources are the kinds whose objects tell that resources came or went.
var mayHaveResources = []string{"CustomResourceDefinition", "APIService"}

// gather is how long arrivals are gathered before they are analyzed: to wake up for each would cost more than to
// analyze it.
const gather = 20 * time.Millisecond

// analyze makes entries of what arrives, until no more will.
func (r *Recorder) analyze(ctx context.Context) {
	h := newHistory(r.started)
	for {
		batch, ok := r.arrivals.take()
		if !ok {
			return
		}
		var all []Entry
		for _, a := range batch {
			entries, err := a.read(h)
			if err != nil {
				r.note(a.of, err)
			}
			for i := range entries {
				entries[i].At = r.since(a.at)
			}
			all = append(all, entries...)
			if len(entries) > 0 && slices.Contains(mayHaveResources, a.of.kind) {
				r.scanSoon()
			}
		}
		r.add(all)
		pause(ctx, gather)
	}
}

func (r *Recorder) note(of resource, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwatched[of.String()] = err.Error()
}

func (r *Recorder) scanSoon() {
	select {
	case r.rescan <- struct{}{}:
	default:
	}
}
