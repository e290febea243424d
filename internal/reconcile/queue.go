package reconcile

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// queue gives keys to workers in the order in which they were added, each key to one worker at a time. A key that is
// added while a worker has it comes back when that worker is done with it. Goroutines are there only while there is
// something to do: workers while keys are ready, and one that waits while keys are delayed. It is safe for concurrent
// use, but for start, which is called once.
type queue[K comparable] struct {
	clock   clock.WithTicker
	metrics *queueMetrics[K] // nil if nothing is measured

	mu         sync.Mutex
	process    func(K)
	idle       int // how many more workers may run; 0 before start
	ready      []K
	dirty      sets.Set[K] // keys that are ready, and those that will be when their worker is done
	processing sets.Set[K]
	delays     delays[K]
	wake       chan struct{} // tells the goroutine that waits of a key that is due earlier; nil if none waits
	closed     bool
	stop       chan struct{} // closed with the queue
	running    sync.WaitGroup
}

func newQueue[K comparable](c clock.WithTicker, metrics *queueMetrics[K]) *queue[K] {
	return &queue[K]{
		clock: c, metrics: metrics, dirty: sets.Set[K]{}, processing: sets.Set[K]{},
		delays: delays[K]{due: map[K]time.Time{}}, stop: make(chan struct{}),
	}
}

// start lets workers process keys, so many at once.
func (q *queue[K]) start(workers int, process func(K)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.process, q.idle = process, workers
	for range q.ready {
		q.dispatch()
	}
}

// shutDown drops all keys and returns when no worker has one. Keys that are added later are ignored.
func (q *queue[K]) shutDown() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.stop)
	}
	q.mu.Unlock()
	q.running.Wait()
}

// add makes key ready, unless it is already.
func (q *queue[K]) add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

func (q *queue[K]) addLocked(key K) {
	if q.closed || q.dirty.Has(key) {
		return
	}
	q.metrics.added(key, q.clock)
	q.dirty.Insert(key)
	if !q.processing.Has(key) {
		q.ready = append(q.ready, key)
		q.dispatch()
	}
}

// addAfter adds key after delay. Of several delays of a key the first to end counts.
func (q *queue[K]) addAfter(key K, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.metrics.retried()
	if delay <= 0 {
		q.addLocked(key)
		return
	}
	if first := q.delays.put(key, q.clock.Now().Add(delay)); !first {
		return
	}
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
		q.running.Go(q.waitForDelays)
		return
	}
	select {
	case q.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// dispatch starts a worker if one may run.
func (q *queue[K]) dispatch() {
	if q.idle > 0 && !q.closed {
		q.idle--
		q.running.Go(q.work)
	}
}

// work processes keys until none is ready.
func (q *queue[K]) work() {
	for key, ok := q.take(); ok; key, ok = q.take() {
		q.processTaken(key)
	}
}

// take gives a worker the next key. If there is none, the worker ends.
func (q *queue[K]) take() (key K, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 || q.closed {
		q.idle++
		return key, false
	}
	key = q.ready[0]
	if q.ready = q.ready[1:]; len(q.ready) == 0 {
		q.ready = nil
	}
	q.dirty.Delete(key)
	q.processing.Insert(key)
	q.metrics.began(key, q.clock, q.measure)
	return key, true
}

// processTaken gives the key back also if processing it ends the goroutine.
func (q *queue[K]) processTaken(key K) {
	defer q.done(key)
	q.process(key)
}

// done makes a key ready that was added meanwhile.
func (q *queue[K]) done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.metrics.ended(key, q.clock)
	q.processing.Delete(key)
	if q.dirty.Has(key) {
		q.ready = append(q.ready, key)
	}
}

// clockJump is more than a clock goes on by itself while a timer is made.
const clockJump = time.Second

// waitForDelays adds keys as their delays end, until no key is delayed.
func (q *queue[K]) waitForDelays() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		now := q.clock.Now()
		for _, key := range q.delays.over(now) {
			q.addLocked(key)
		}
		if len(q.delays.queue) == 0 {
			break
		}
		timer := q.clock.NewTimer(q.delays.queue[0].due.Sub(now))
		if q.clock.Now().Sub(now) > clockJump { // a test put the clock forward before the timer was there
			timer.Stop()
			continue
		}
		q.mu.Unlock()
		select {
		case <-timer.C():
		case <-q.wake:
		case <-q.stop:
		}
		timer.Stop()
		q.mu.Lock()
	}
	q.wake = nil
}

// measure updates the metrics of keys that workers have, as long as there are some.
func (q *queue[K]) measure() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.metrics.update(q.clock, q.measure)
	}
}

// delays are keys with the times when they are due, at most one for each.
type delays[K comparable] struct {
	due   map[K]time.Time
	queue dueQueue[K] // may have keys with times that are not theirs any more, which count for nothing
}

// put tells whether key is the first that is due now, and was not before.
func (d *delays[K]) put(key K, due time.Time) bool {
	if old, ok := d.due[key]; ok && !due.Before(old) {
		return false
	}
	d.due[key] = due
	first := len(d.queue) == 0 || due.Before(d.queue[0].due)
	heap.Push(&d.queue, dueKey[K]{key, due})
	return first
}

// over removes the keys that are due, and returns them in their order.
func (d *delays[K]) over(now time.Time) (keys []K) {
	for len(d.queue) > 0 {
		next := d.queue[0]
		valid := d.due[next.key].Equal(next.due)
		if valid && next.due.After(now) {
			break
		}
		heap.Pop(&d.queue)
		if valid {
			delete(d.due, next.key)
			keys = append(keys, next.key)
		}
	}
	return keys
}

type dueKey[K comparable] struct {
	key K
	due time.Time
}

// dueQueue implements heap.Interface.
type dueQueue[K comparable] []dueKey[K]

func (q dueQueue[K]) Len() int           { return len(q) }
func (q dueQueue[K]) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q dueQueue[K]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dueQueue[K]) Push(x any)        { *q = append(*q, x.(dueKey[K])) }

func (q *dueQueue[K]) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = dueKey[K]{}
	*q = (*q)[:last]
	return x
}

// queueMetrics are the metrics of a queue, as client-go's work queues have them. The methods of nil measure nothing;
// the queue's lock is held while they are called.
type queueMetrics[K comparable] struct {
	depth               workqueue.GaugeMetric
	adds, retries       workqueue.CounterMetric
	waited, worked      workqueue.HistogramMetric
	unfinished, longest workqueue.SettableGaugeMetric

	addedAt, begunAt map[K]time.Time
	updating         bool
}

// updatePeriod is how often the metrics of unfinished work are updated while there is some, by the machine's time.
const updatePeriod = 500 * time.Millisecond

func newQueueMetrics[K comparable](name string, provider workqueue.MetricsProvider) *queueMetrics[K] {
	if provider == nil {
		return nil
	}
	return &queueMetrics[K]{
		depth: provider.NewDepthMetric(name), adds: provider.NewAddsMetric(name),
		retries: provider.NewRetriesMetric(name), waited: provider.NewLatencyMetric(name),
		worked: provider.NewWorkDurationMetric(name), unfinished: provider.NewUnfinishedWorkSecondsMetric(name),
		longest: provider.NewLongestRunningProcessorSecondsMetric(name),
		addedAt: map[K]time.Time{}, begunAt: map[K]time.Time{},
	}
}

func (m *queueMetrics[K]) added(key K, c clock.PassiveClock) {
	if m == nil {
		return
	}
	m.adds.Inc()
	m.depth.Inc()
	m.addedAt[key] = c.Now()
}

func (m *queueMetrics[K]) retried() {
	if m != nil {
		m.retries.Inc()
	}
}

// began tells that a worker has key; update is to be called after updatePeriod.
func (m *queueMetrics[K]) began(key K, c clock.PassiveClock, update func()) {
	if m == nil {
		return
	}
	now := c.Now()
	m.depth.Dec()
	m.waited.Observe(now.Sub(m.addedAt[key]).Seconds())
	delete(m.addedAt, key)
	m.begunAt[key] = now
	if !m.updating {
		m.updating = true
		time.AfterFunc(updatePeriod, update)
	}
}

func (m *queueMetrics[K]) ended(key K, c clock.PassiveClock) {
	if m == nil {
		return
	}
	m.worked.Observe(c.Since(m.begunAt[key]).Seconds())
	delete(m.begunAt, key)
}

// update sets the metrics of unfinished work, and has itself called again if there is some.
func (m *queueMetrics[K]) update(c clock.PassiveClock, again func()) {
	var total, longest time.Duration
	for _, begun := range m.begunAt {
		age := c.Since(begun)
		total, longest = total+age, max(longest, age)
	}
	m.unfinished.Set(total.Seconds())
	m.longest.Set(longest.Seconds())
	if m.updating = len(m.begunAt) > 0; m.updating {
		time.AfterFunc(updatePeriod, again)
	}
}
