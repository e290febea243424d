package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/latency"
)

// requestState is the context of a request with everything that the filter chain determines about it: in one place, and
// not in nested contexts, which every look-up would have to traverse. It is written to by the filters alone,
// before they pass the request on.
type requestState struct {
	context.Context
	info     *request.RequestInfo
	user     user.Info // nil until it is known
	entered  time.Time // the filter that is measured now
	cut      bool      // its answer could not be sent to the end
	early    bool      // it came before all that is served was known
	got      stage     // how far it got
	warnings warnings
	trackers atomic.Pointer[request.LatencyTrackers]
	times    *latency.Times // nil if latencies are not tracked
}

// stage is how far a request gets, which its metrics tell: those that are refused before they are served aren't counted
// as served.
type stage int

const (
	arrived stage = iota
	queued        // the user is known; there may be too many requests
	reached       // what serves it
)

type requestStateKey struct{}

// requestStateOf returns the state of a request that has passed withRequestInfo.
func requestStateOf(r *http.Request) *requestState {
	a, _ := r.Context().Value(requestStateKey{}).(*requestState)
	return a
}

// keys are those under which package request, and others, look for what they would have put into contexts themselves.
var keys = struct{ info, user, namespace, warnings, trackers any }{
	info:      keyOf(func(ctx context.Context) { request.RequestInfoFrom(ctx) }),
	user:      keyOf(func(ctx context.Context) { request.UserFrom(ctx) }),
	namespace: keyOf(func(ctx context.Context) { request.NamespaceFrom(ctx) }),
	warnings:  keyOf(func(ctx context.Context) { warning.AddWarning(ctx, "", "") }),
	trackers:  keyOf(func(ctx context.Context) { request.LatencyTrackersFrom(ctx) }),
}

// keyOf finds the key that is looked up.
func keyOf(lookUp func(context.Context)) any {
	l := &listener{Context: context.Background()}
	lookUp(l)
	return l.key
}

type listener struct {
	context.Context
	key any
}

func (l *listener) Value(key any) any {
	l.key = key
	return nil
}

// Value implements context.Context.
func (a *requestState) Value(key any) any {
	switch {
	case key == keys.info:
		return a.info
	case key == keys.user && a.user != nil:
		return a.user
	case key == keys.namespace && a.info.Namespace != "":
		return a.info.Namespace
	case key == keys.warnings && a.warnings.header != nil:
		return &a.warnings
	case key == keys.trackers:
		return a.latencies()
	case key == latency.Key{}:
		return a.times
	case key == answer.EarlyKey{}:
		return a.early
	case key == requestStateKey{}:
		return a
	}
	return a.Context.Value(key)
}

// latencies are made on first use, as most requests track nothing. Watches have none.
func (a *requestState) latencies() *request.LatencyTrackers {
	if a.info.Verb == "watch" {
		return nil
	}
	if a.trackers.Load() == nil {
		made, _ := request.LatencyTrackersFrom(request.WithLatencyTrackers(context.Background()))
		a.times.Tell(made)
		a.trackers.CompareAndSwap(nil, made)
	}
	return a.trackers.Load()
}
