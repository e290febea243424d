package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server is an API server with pods, widgets, whose lists and watches are forbidden, and, later, gadgets.
type server struct {
	mu      sync.Mutex
	listed  []json.RawMessage
	version int
	watches chan chan string // a watch of pods that was opened, for the lines that it sends
	later   bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api", "/apis":
		s.groups(w, r)
	case "/api/v1":
		s.resources(w)
	case "/api/v1/pods":
		s.pods(w, r)
	case "/api/v1/gadgets":
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, podText("late", "9", 1,
				begun.Sub(time.Now().Add(time.Hour)), ""))
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			Message: "not for you"})
	}
}

func (s *server) groups(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis" {
		_ = json.NewEncoder(w).Encode(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
		return
	}
	_ = json.NewEncoder(w).Encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"}})
}

func (s *server) resources(w http.ResponseWriter) {
	verbs := metav1.Verbs{"list", "watch"}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "v1",
		APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Verbs: verbs},
			{Name: "pods/status", Kind: "Pod", Verbs: verbs}, {Name: "widgets", Kind: "Widget", Verbs: verbs},
			{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}}}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: "gadgets", Kind: "Gadget", Verbs: verbs})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func (s *server) pods(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		items, _ := json.Marshal(s.listed)
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"},"items":%s}`, s.version, items)
		return
	}
	control := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	lines := make(chan string)
	select {
	case s.watches <- lines:
	case <-r.Context().Done():
		return
	}
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			fmt.Fprintln(w, line)
			_ = control.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) set(version int, later bool, items ...json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.listed, s.later = version, items, later
}

func line(kind string, object json.RawMessage) string {
	return `{"type":"` + kind + `","object":` + string(object) + `}`
}

const expired = `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}}`

// recording is a recorder of a server, which both end with the test, and the first watch of pods.
func recording(t *testing.T, s *server, o Options) (*Recorder, chan string) {
	t.Helper()
	clean := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, clean) })
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	r, err := Record(t.Context(), &rest.Config{Host: http.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	return r, <-s.watches
}

// await waits for so many entries.
func await(t *testing.T, r *Recorder, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for next := 0; next < n; {
		var err error
		if _, next, err = r.Next(ctx, next); err != nil {
			t.Fatalf("after %d entries: %v", next, err)
		}
	}
}

func newServer() *server {
	return &server{version: 1, watches: make(chan chan string), listed: []json.RawMessage{podText("old", "1", 1,
		time.Hour, "")}}
}

func TestRecorderGoesOnAfterLostWatches(t *testing.T) {
	s := newServer()
	r, watch := recording(t, s, Options{})
	watch <- line("ADDED", podText("a", "2", 2, 0, ""))
	await(t, r, 1)
	close(watch) // goes on from where it was
	watch = <-s.watches
	watch <- line("BOOKMARK", podText("", "", 3, 0, ""))
	watch <- line("MODIFIED", podText("a", "2", 4, 0, `,"spec":{"x":1}`))
	await(t, r, 2)
	s.set(7, false, podText("a", "2", 6, 0, `,"spec":{"x":2}`), podText("b", "3", 5, 0, ""))
	watch <- expired // and from a list
	watch = <-s.watches
	await(t, r, 5)
	watch <- line("DELETED", podText("b", "3", 8, 0, ""))
	await(t, r, 6)
	score := r.Stop()
	want := "create a by me\nupdate a by me\nupdate a by me missed\ncreate b by me missed\n" +
		"delete old by kube-apiserver missed\ndelete b by kube-apiserver"
	if got := summary(score.Entries); got != want {
		t.Errorf("recorded\n%s\nwant\n%s", got, want)
	}
	if i := slices.IndexFunc(score.Gaps, func(g Gap) bool {
		return g.Lost && g.Resource == "pods" &&
			g.To >= g.From
	}); i < 0 {
		t.Errorf("gaps: %+v", score.Gaps)
	}
	if why := score.Unwatched["widgets"]; len(score.Unwatched) != 1 || !strings.Contains(why, "not for you") {
		t.Errorf("unwatched: %v", score.Unwatched)
	}
	if _, _, err := r.Next(t.Context(), 6); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	if err := r.Settle(t.Context(), time.Hour); err != nil {
		t.Errorf("what has ended is at rest: %v", err)
	}
}

func TestRecorderDropsTheOldest(t *testing.T) {
	s := newServer()
	r, watch := recording(t, s, Options{MaxEntries: 3})
	for i := range 5 {
		watch <- line("ADDED", podText(fmt.Sprintf("p%d", i), fmt.Sprint(i), i+2, 0, ""))
	}
	await(t, r, 5)
	score := r.Stop()
	if got := summary(score.Entries); score.Dropped != 2 || got != "create p2 by me\ncreate p3 by me\ncreate p4 by me" {
		t.Errorf("dropped %d and kept\n%s", score.Dropped, got)
	}
	if entries, next, err := r.Next(t.Context(), 0); err != nil || len(entries) != 3 || next != 5 {
		t.Errorf("%d entries before %d, %v", len(entries), next, err)
	}
}

func TestRecorderFindsResourcesThatComeLater(t *testing.T) {
	s := newServer()
	r, _ := recording(t, s, Options{})
	s.set(1, true)
	r.scanSoon()
	await(t, r, 1)
	if got := r.Stop().Entries[0]; got.Object.Kind != "Gadget" || got.Object.Name != "late" || !got.Missed {
		t.Errorf("recorded %+v", got)
	}
}

func TestRecordFailsWithItsReason(t *testing.T) {
	clean := goleak.IgnoreCurrent()
	defer goleak.VerifyNone(t, clean)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, err := Record(t.Context(), &rest.Config{Host: gone.URL}, Options{}); err == nil {
		t.Error("a server that is not there: no error")
	}
	if _, err := Record(t.Context(), &rest.Config{Host: gone.URL}, Options{MaxEntries: -1}); err == nil ||
		!strings.Contains(err.Error(), "MaxEntries") {
		t.Errorf("a bad limit: %v", err)
	}
}
