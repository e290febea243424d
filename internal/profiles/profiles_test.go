package profiles

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
)

func serve(handlers map[string]http.Handler, method, path, body string) *httptest.ResponseRecorder {
	mux := http.NewServeMux()
	for path, h := range handlers {
		mux.Handle(path, h)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestPaths(t *testing.T) {
	handlers := Options{On: true}.Begin()
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/debug/pprof/":                  {http.StatusOK, "/debug/pprof/"},
		"/debug/pprof/goroutine?debug=1": {http.StatusOK, "TestPaths"},
		"/debug/pprof/block?debug=1":     {http.StatusOK, "cycles/second"},
		"/debug/pprof/symbol":            {http.StatusOK, "num_symbols"},
		"/debug/pprof/none":              {http.StatusNotFound, "Unknown profile"},
		"/debug/flags":                   {http.StatusOK, "full flags configurable"},
		"/debug/flags/other":             {http.StatusOK, "full flags configurable"},
	} {
		if w := serve(handlers, http.MethodGet, path, ""); w.Code != want.code ||
			!strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%s: %d %.200q", path, w.Code, w.Body)
		}
	}
	if w := serve(handlers, http.MethodGet, "/debug/pprof", ""); w.Code != http.StatusFound ||
		w.Header().Get("Location") != "/debug/pprof/" {
		t.Errorf("/debug/pprof: %d, %q", w.Code, w.Header())
	}
}

func TestVerbosity(t *testing.T) {
	t.Cleanup(func() { _, _ = logs.GlogSetter("0") })
	for _, c := range []struct {
		method, body string
		code         int
		text         string
		now          klog.Level
	}{
		{http.MethodPut, "7", http.StatusOK, "successfully set klog.logging.verbosity to 7\n", 7},
		{http.MethodGet, "9", http.StatusNotAcceptable, "unsupported http method\n", 7},
		{http.MethodPut, "much", http.StatusBadRequest, `strconv.ParseUint: parsing "much": invalid syntax` + "\n", 7},
		{http.MethodPut, "2", http.StatusOK, "successfully set klog.logging.verbosity to 2\n", 2},
	} {
		w := serve(Handlers(), c.method, "/debug/flags/v", c.body)
		if w.Code != c.code || w.Body.String() != c.text || !klog.V(c.now).Enabled() || klog.V(c.now+1).Enabled() {
			t.Errorf("%s %q: %d %q, level %d: %t, above: %t", c.method, c.body, w.Code, w.Body, c.now,
				klog.V(c.now).Enabled(), klog.V(c.now+1).Enabled())
		}
	}
}

// meet lets one goroutine wait for another, whichever is first, and returns after both have been notified.
func meet() {
	place, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		<-place
	}()
	place <- struct{}{}
	<-done
}

// waits counts what the block profile has of it.
func waits(t *testing.T) (n int64) {
	t.Helper()
	records := make([]runtime.BlockProfileRecord, 10000)
	known, ok := runtime.BlockProfile(records)
	if !ok {
		t.Fatalf("%d records are too many", known)
	}
	for _, r := range records[:known] {
		for frames := runtime.CallersFrames(r.Stack()); ; {
			frame, more := frames.Next()
			if strings.Contains(frame.Function, "profiles.meet") {
				n += r.Count
				break
			}
			if !more {
				break
			}
		}
	}
	return n
}

// TestContention: waiting goroutines are profiled if contention profiling and profiling are enabled.
func TestContention(t *testing.T) {
	t.Cleanup(func() { runtime.SetBlockProfileRate(0) })
	before := waits(t)
	for _, o := range []Options{{}, {On: true}, {Contention: true}} {
		if handlers := o.Begin(); (handlers != nil) != o.On {
			t.Errorf("%+v serves %v", o, handlers)
		}
		if meet(); waits(t) != before {
			t.Fatalf("%+v profiles contention", o)
		}
	}
	Options{On: true, Contention: true}.Begin()
	if meet(); waits(t) == before {
		t.Error("contention isn't profiled")
	}
}
