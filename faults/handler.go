package faults

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Handler disturbs requests on their way to next. user names who makes a request. Requests that are for no resource
// pass, as do WebSockets and other connections that are taken over.
func (i *Injector) Handler(user func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		k, ok := keyOf(r, user(r))
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		f, ok := i.Decide(k)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if !wait(r.Context(), f.Delay.Duration) {
			return
		}
		disturb(f, k, w, r, next)
	})
}

func disturb(f Fault, k Key, w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch {
	case f.ofWatches() || k.Verb == "watch" && f.Cut:
		watch(f, k, w, r, next)
	case f.Status != 0:
		refuse(f, k, w)
	case f.LoseReply:
		next.ServeHTTP(&lost{header: http.Header{}}, r)
		panic(http.ErrAbortHandler) // the server closes the connection, or resets the stream of HTTP/2
	default:
		next.ServeHTTP(w, r)
	}
}

// wait waits, and returns false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// status is the error that API servers answer with a code.
func status(f Fault, k Key) metav1.Status {
	resource, _, _ := strings.Cut(k.Resource, "/")
	return apierrors.NewGenericServerResponse(f.Status, k.Verb, schema.ParseGroupResource(resource), k.Name,
		"injected fault", f.RetryAfter, true).Status()
}

// expired is what servers say of a resource version that is too old: reflectors tell it from other errors by its
// reason.
func expired() metav1.Status {
	return apierrors.NewResourceExpired("too old resource version: injected fault").Status()
}

func refuse(f Fault, k Key, w http.ResponseWriter) {
	s := status(f, k)
	if f.Status == http.StatusGone {
		s = expired()
	}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // a Status has nothing that JSON lacks
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}

// lost takes a reply that reaches no client.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header         { return l.header }
func (l *lost) Write(p []byte) (int, error) { return len(p), nil }
func (l *lost) WriteHeader(int)             {}
func (l *lost) Flush()                      {}
