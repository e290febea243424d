package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/latency"
)

// TestAsked: what the chain knows of a request is found by the functions of the packages that keep such things in
// contexts.
func TestAsked(t *testing.T) {
	outer := request.WithUser(t.Context(), &user.DefaultInfo{Name: "outer"})
	header := http.Header{}
	a := &requestState{Context: outer, info: &request.RequestInfo{Namespace: "x", Name: "p"}}
	ctx, cancel := context.WithTimeout(a, time.Hour)
	defer cancel()
	if u, ok := request.UserFrom(ctx); !ok || u.GetName() != "outer" {
		t.Errorf("before authentication: %v", u)
	}
	warning.AddWarning(ctx, "", "before there is a recorder")
	a.user, a.warnings.header = &user.DefaultInfo{Name: "alice"}, header
	if u, ok := request.UserFrom(ctx); !ok || u.GetName() != "alice" {
		t.Errorf("user %v", u)
	}
	if info, ok := request.RequestInfoFrom(ctx); !ok || info.Name != "p" {
		t.Errorf("info %v", info)
	}
	if namespace, ok := request.NamespaceFrom(ctx); !ok || namespace != "x" {
		t.Errorf("namespace %q", namespace)
	}
	warning.AddWarning(ctx, "", "careful")
	if got := header["Warning"]; len(got) != 1 || got[0] != `299 - "careful"` {
		t.Errorf("warnings %q", got)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if requestStateOf(r) != a {
		t.Error("it is not found")
	}
	if took := ours(r, time.Minute); took != time.Minute || a.trackers.Load() != nil {
		t.Errorf("took %v before anything was tracked", took)
	}
	request.TrackAPFQueueWaitLatency(ctx, time.Second)
	if took := ours(r, time.Minute); took != 59*time.Second {
		t.Errorf("took %v beside the queue", took)
	}
	for name, key := range map[string]any{"info": keys.info, "user": keys.user, "namespace": keys.namespace,
		"warnings": keys.warnings, "trackers": keys.trackers} {
		if key == nil {
			t.Errorf("the key of %s is not known", name)
		}
	}
}

func TestMemo(t *testing.T) {
	var m memo[string, int]
	found := 0
	find := func(string) int { found++; return found }
	if a, b, c := m.get("a", find), m.get("b", find), m.get("a", find); a != 1 || b != 2 || c != 1 || found != 2 {
		t.Errorf("got %d, %d, %d", a, b, c)
	}
}

// TestLatencies: what audit says of slow requests comes from those who serve them, and for requests alone that are
// audited.
func TestLatencies(t *testing.T) {
	for verb, audited := range map[string]bool{"get": true, "watch": false} {
		a := &requestState{Context: t.Context(), info: &request.RequestInfo{Verb: verb}}
		if audited {
			a.times = &latency.Times{}
		}
		if got := latency.From(a); got != a.times {
			t.Errorf("%s: found %p, want %p", verb, got, a.times)
		}
		request.TrackAPFQueueWaitLatency(a, time.Second)
		a.times.Add(latency.Storage, time.Now().Add(-time.Hour))
		got := request.AuditAnnotationsFromLatencyTrackers(a)
		if _, ok := got["apiserver.latency.k8s.io/etcd"]; ok != audited ||
			(got["apiserver.latency.k8s.io/apf-queue-wait"] == "1s") != audited {
			t.Errorf("%s: annotations %v", verb, got)
		}
	}
}
