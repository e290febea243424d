package fairness

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// control stands in for the controller: it classifies all requests alike and then does what decide says.
type control struct {
	flowcontrol.Interface
	decide    func(ctx context.Context, note fairqueuing.QueueNoteFn, execute func())
	digest    flowcontrol.RequestDigest
	seats     int
	watches   int
	forgotten int
}

func (c *control) Handle(ctx context.Context, digest flowcontrol.RequestDigest,
	classified func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() flowrequest.WorkEstimate, note fairqueuing.QueueNoteFn, execute func()) {
	c.digest = digest
	classified(&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "schema", UID: "s"}},
		&flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "level", UID: "l"}}, "")
	work := estimate()
	c.seats = work.MaxSeats()
	c.decide(ctx, note, execute)
}

func (c *control) RegisterWatch(*http.Request) flowcontrol.ForgetWatchFunc {
	c.watches++
	return func() { c.forgotten++ }
}

func at(_ context.Context, _ fairqueuing.QueueNoteFn, execute func()) { execute() }
func never(context.Context, fairqueuing.QueueNoteFn, func())          {}

// implementations are this package's filter and the library's, which it stands in for.
var implementations = map[string]func(Config, http.Handler) http.Handler{
	"ours": func(c Config, next http.Handler) http.Handler { return New(c, next) },
	"the library's": func(c Config, next http.Handler) http.Handler {
		return filters.WithPriorityAndFairness(next, c.LongRunning, c.Control, c.Estimate, c.Wait)
	},
}

// each runs a test with every implementation; ask sends a request of a verb.
func each(t *testing.T, test func(t *testing.T, c *control,
	ask func(ctx context.Context, verb string, next http.HandlerFunc) *httptest.ResponseRecorder)) {
	metrics.Register()
	for name, make := range implementations {
		t.Run(name, func(t *testing.T) {
			c := &control{}
			config := Config{
				Control: c, Wait: 15 * time.Second,
				Estimate: func(_ *http.Request, schema, level string) flowrequest.WorkEstimate {
					if schema != "schema" || level != "level" {
						t.Errorf("the work of %s, %s is estimated", schema, level)
					}
					return flowrequest.WorkEstimate{InitialSeats: 3}
				},
				LongRunning: func(_ *http.Request, info *request.RequestInfo) bool {
					return info.Verb == "watch" || info.Verb == "proxy"
				},
			}
			test(t, c, func(ctx context.Context, verb string, next http.HandlerFunc) *httptest.ResponseRecorder {
				ctx = request.WithUser(request.WithRequestInfo(ctx, &request.RequestInfo{Verb: verb}),
					&user.DefaultInfo{Name: "alice"})
				w := httptest.NewRecorder()
				make(config, next).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				return w
			})
		})
	}
}

func served(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestServes(t *testing.T) {
	each(t, func(t *testing.T, c *control,
		ask func(context.Context, string, http.HandlerFunc) *httptest.ResponseRecorder) {
		c.decide = at
		for _, verb := range []string{"get", "update", "watch"} {
			w := ask(t.Context(), verb, served)
			if w.Code != http.StatusTeapot ||
				w.Header().Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) != "l" ||
				w.Header().Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) != "s" {
				t.Errorf("%s: got %d %v", verb, w.Code, w.Header())
			}
			if c.digest.RequestInfo.Verb != verb || c.digest.User.GetName() != "alice" || c.seats != 3 {
				t.Errorf("%s: classified as %+v, with %d seats", verb, c.digest, c.seats)
			}
		}
		c.digest = flowcontrol.RequestDigest{}
		if w := ask(t.Context(), "proxy", served); w.Code != http.StatusTeapot || c.digest.RequestInfo != nil ||
			len(w.Header()) != 0 {
			t.Errorf("a long request: %d %v", w.Code, w.Header())
		}
	})
}

func TestRefuses(t *testing.T) {
	each(t, func(t *testing.T, c *control,
		ask func(context.Context, string, http.HandlerFunc) *httptest.ResponseRecorder) {
		c.decide = never
		for _, verb := range []string{"get", "update", "watch"} {
			w := ask(t.Context(), verb, served)
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" ||
				w.Body.String() != "Too many requests, please try again later.\n" ||
				w.Header().Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) != "l" {
				t.Errorf("%s: got %d %v %q", verb, w.Code, w.Header(), w.Body)
			}
		}
		if c.watches != 0 {
			t.Error("a watch that was refused is taken for one")
		}
	})
}

// TestWaits: how long a request waits, and that no request of a disconnected client waits.
func TestWaits(t *testing.T) {
	each(t, func(t *testing.T, c *control,
		ask func(context.Context, string, http.HandlerFunc) *httptest.ResponseRecorder) {
		var wait time.Duration
		c.decide = func(ctx context.Context, note fairqueuing.QueueNoteFn, _ func()) {
			note(true)
			until, _ := ctx.Deadline()
			wait = time.Until(until)
			select {
			case <-ctx.Done():
				t.Errorf("the wait is over at once: %v", ctx.Err())
			default:
			}
			note(false)
		}
		for name, tt := range map[string]struct{ has, want time.Duration }{
			"no deadline": {0, 15 * time.Second}, "little time": {20 * time.Second, 5 * time.Second},
			"much time": {time.Hour, time.Minute},
		} {
			ctx, cancel := t.Context(), func() {}
			if tt.has > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.has)
			}
			if w := ask(ctx, "list", served); w.Code != http.StatusTooManyRequests || wait > tt.want ||
				wait < tt.want-tt.want/4 {
				t.Errorf("%s: waits for %v, gets %d", name, wait, w.Code)
			}
			cancel()
		}
		gone, leave := context.WithCancel(t.Context())
		c.decide = func(ctx context.Context, note fairqueuing.QueueNoteFn, _ func()) {
			note(true)
			leave()
			<-ctx.Done()
			note(false)
		}
		ask(gone, "list", served)
		c.decide = func(_ context.Context, note fairqueuing.QueueNoteFn, execute func()) {
			note(true)
			note(false)
			execute()
		}
		if w := ask(t.Context(), "list", served); w.Code != http.StatusTeapot {
			t.Errorf("after a queue: %d", w.Code)
		}
	})
}

// TestWatches: a watch holds its turn until it has begun, and is known until it ends.
func TestWatches(t *testing.T) {
	each(t, func(t *testing.T, c *control,
		ask func(context.Context, string, http.HandlerFunc) *httptest.ResponseRecorder) {
		over := make(chan struct{})
		c.decide = func(_ context.Context, _ fairqueuing.QueueNoteFn, execute func()) {
			execute()
			close(over)
		}
		ask(t.Context(), "watch", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-over:
				t.Error("the turn of the watch is over before it has begun")
			default:
			}
			flowcontrol.WatchInitialized(r.Context())
			<-over
			if c.watches != 1 || c.forgotten != 0 {
				t.Errorf("%d watches, %d forgotten", c.watches, c.forgotten)
			}
		})
		if c.forgotten != 1 {
			t.Errorf("%d watches are forgotten", c.forgotten)
		}
		c.decide = at
		for what, text := range map[any]string{"a fault": "a fault",
			http.ErrAbortHandler: http.ErrAbortHandler.Error()} {
			if p := panics(func() {
				ask(t.Context(), "watch",
					func(http.ResponseWriter, *http.Request) { panic(what) })
			}); p != what {
				t.Errorf("%v becomes %v", text, p)
			}
		}
		c.decide = func(context.Context, fairqueuing.QueueNoteFn, func()) { panic("a fault of the controller") }
		if p, _ := panics(func() { ask(t.Context(), "watch", served) }).(string); !strings.HasPrefix(p,
			"a fault of the controller") {
			t.Errorf("got %q", p)
		}
	})
}

func panics(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// TestCounts: what is counted is counted down, too.
func TestCounts(t *testing.T) {
	metrics.Register()
	c := &control{decide: func(_ context.Context, note fairqueuing.QueueNoteFn, execute func()) {
		note(true)
		note(false)
		execute()
	}}
	var f *Filter
	f = New(Config{Control: c,
		Estimate:    func(*http.Request, string, string) flowrequest.WorkEstimate { return flowrequest.WorkEstimate{} },
		LongRunning: func(*http.Request, *request.RequestInfo) bool { return false }},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if n := f.executing[1].now.Load(); n != 1 {
				t.Errorf("%d requests under way", n)
			}
		}))
	ctx := request.WithUser(request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: "list"}),
		&user.DefaultInfo{})
	f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	for name, peakGauge := range map[string]*peakGauge{"under way": f.executing[1], "waiting": f.waiting[1]} {
		if now, most := peakGauge.now.Load(), peakGauge.peak(); now != 0 || most != 1 || peakGauge.peak() != 0 {
			t.Errorf("%s: %d now, %d at most", name, now, most)
		}
	}
}
