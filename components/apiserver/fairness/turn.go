package fairness

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// maxWait is how long any request may wait.
const maxWait = time.Minute

// queuedRequest is one request under flow control. It is the context in which the request waits, which ends when it has
// waited for too long; the request itself is served in its own.
type queuedRequest struct {
	context.Context
	filter *Filter
	w      http.ResponseWriter
	r      *http.Request
	digest flowcontrol.RequestDigest
	reads  int // 1 if it does
	schema *flowcontrolv1.FlowSchema
	level  *flowcontrolv1.PriorityLevelConfiguration
	uids   [2]string // of both
	served bool

	queued  atomic.Bool
	limit   sync.Once
	limited context.Context // made by limit
	unlimit context.CancelFunc
}

// queuedWatch is the queuedRequest of a watch.
type queuedWatch struct {
	*queuedRequest
	begun   flowcontrol.InitializationSignal // until which it lasts
	started chan struct{}
	forget  flowcontrol.ForgetWatchFunc // nil for what is no watch in the end
}

// wait calls execute when the turn has come. It returns when execute has, or when the request is not to be served.
func (t *queuedRequest) wait(execute func()) {
	defer func() {
		if t.unlimit != nil {
			t.unlimit()
		}
	}()
	t.filter.Control.Handle(t, t.digest, t.classified, t.estimate, t.noteQueued, execute)
}

func (t *queuedRequest) classified(schema *flowcontrolv1.FlowSchema, level *flowcontrolv1.PriorityLevelConfiguration,
	_ string) {
	t.schema, t.level = schema, level
}

func (t *queuedRequest) estimate() flowrequest.WorkEstimate {
	work := t.filter.Estimate(t.r, t.schema.Name, t.level.Name)
	metrics.ObserveWorkEstimatedSeats(t.level.Name, t.schema.Name, work.MaxSeats())
	return work
}

// noteQueued is told when the request enters a queue, and when it leaves it.
func (t *queuedRequest) noteQueued(in bool) {
	t.queued.Store(in)
	if in {
		t.filter.waiting[t.reads].add(1)
	} else {
		t.filter.waiting[t.reads].add(-1)
	}
}

func (t *queuedRequest) serve() {
	executing := t.filter.executing[t.reads]
	executing.add(1)
	defer executing.add(-1)
	t.served = true
	t.mark()
	t.filter.next.ServeHTTP(t.w, t.r)
}

// Done implements context.Context for who waits for the turn. Most requests are never in a queue, or leave it before
// something waits for it: these need no timer.
func (t *queuedRequest) Done() <-chan struct{} {
	if !t.queued.Load() {
		return nil
	}
	return t.inTime().Done()
}

// Err implements context.Context.
func (t *queuedRequest) Err() error { return t.inTime().Err() }

// Deadline implements context.Context.
func (t *queuedRequest) Deadline() (time.Time, bool) { return t.inTime().Deadline() }

func (t *queuedRequest) inTime() context.Context {
	t.limit.Do(func() {
		wait, since := t.filter.Wait, time.Now() // to wait is what a request begins with
		if received, ok := request.ReceivedTimestampFrom(t.Context); ok {
			since = received
		}
		if deadline, ok := t.Context.Deadline(); ok {
			wait = deadline.Sub(since) / 4
		}
		t.limited, t.unlimit = context.WithDeadline(t.Context, since.Add(min(wait, maxWait)))
	})
	return t.limited
}

// watch serves a watch, which keeps its turn until it has sent what there is at its begin. So its turn is another
// goroutine's, which ends soon.
func (t *queuedRequest) watch() {
	w := &queuedWatch{queuedRequest: t, begun: flowcontrol.NewInitializationSignal(), started: make(chan struct{})}
	over := make(chan any, 1) // the turn, with what it panicked with
	go func() {
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler {
				p = fmt.Sprintf("%v\n%s", p, debug.Stack()) // which would be lost
			}
			over <- p
		}()
		t.wait(w.hold)
	}()
	select {
	case <-w.started:
	case p := <-over:
		if p != nil {
			panic(p)
		}
		return
	}
	defer func() {
		w.begun.Signal() // however the watch has ended
		p := <-over
		if w.forget != nil {
			w.forget()
		}
		if p != nil {
			panic(p)
		}
	}()
	t.filter.next.ServeHTTP(t.w, t.r.WithContext(flowcontrol.WithInitializationSignal(t.Context, w.begun)))
}

// hold is the turn of a watch.
func (w *queuedWatch) hold() {
	executing := w.filter.executing[w.reads]
	executing.add(1)
	defer executing.add(-1)
	w.served = true
	w.mark()
	w.forget = w.filter.Control.RegisterWatch(w.r)
	close(w.started)
	w.begun.Wait()
}
