package docker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// listed is an engine's API with one container, which counts how often that is inspected.
type listed struct {
	mu       sync.Mutex
	state    string
	shares   int64
	failure  string
	inspects int
	// meanwhile, if set, is called between the look at the container and the answer.
	meanwhile func()
	events    chan string
}

func (l *listed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.45")
	w.Header().Set("Content-Type", "application/json")
	labels := map[string]string{labelType: typeContainer, labelPodUID: "u", labelContainer: "main"}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/containers/json"):
		_ = json.NewEncoder(w).Encode([]any{map[string]any{"Id": "c", "State": l.state, "Labels": labels}})
	case strings.HasSuffix(path, "/containers/c/json"):
		l.inspects++
		shares := l.shares
		if l.meanwhile != nil {
			l.meanwhile()
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Id": "c", "Config": map[string]any{"Labels": labels},
			"State": map[string]any{"Status": l.state, "Error": l.failure}, "HostConfig": map[string]any{"CpuShares": shares}})
	case strings.HasSuffix(path, "/events"):
		l.mu.Unlock()
		defer l.mu.Lock()
		w.(http.Flusher).Flush() // the client waits for the beginning of the answer
		for action := range l.events {
			fmt.Fprintf(w, `{"Type":"container","Action":%q,"Actor":{"ID":"c","Attributes":{%q:"u"}}}`, action, labelPodUID)
			w.(http.Flusher).Flush()
		}
	default: // ping, info and update
		fmt.Fprint(w, "{}")
	}
}

// A container that runs or has ended is inspected once for each state, and again after whatever may have changed it.
func TestContainersAreInspectedOnce(t *testing.T) {
	api := &listed{state: "created", events: make(chan string)}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(api.events) })
	e, err := New(t.Context(), Options{Endpoint: "tcp://" + server.Listener.Addr().String(), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	change := func(f func(*listed)) {
		api.mu.Lock()
		defer api.mu.Unlock()
		f(api)
	}
	want := func(what string, inspects int, state runtime.State, shares int64) {
		t.Helper()
		change(func(l *listed) { l.inspects = 0 })
		for range 2 {
			pod, err := e.Pod(t.Context(), "u")
			if err != nil || len(pod.Containers) != 1 {
				t.Fatalf("%s: %+v, %v", what, pod, err)
			}
			if c := &pod.Containers[0]; c.State != state || c.CPUShares != shares {
				t.Errorf("%s: %v with %d shares, want %v with %d", what, c.State, c.CPUShares, state, shares)
			}
		}
		change(func(l *listed) {
			if l.inspects != inspects {
				t.Errorf("%s: inspected %d times, want %d", what, l.inspects, inspects)
			}
		})
	}
	want("created", 2, runtime.Created, 0) // its start may fail without another state
	change(func(l *listed) { l.state, l.shares = "running", 2 })
	want("running", 1, runtime.Running, 2)
	want("still running", 0, runtime.Running, 2)
	change(func(l *listed) { l.shares = 3 })
	if err := e.Resize(t.Context(), "c", runtime.Resources{CPUShares: 3}); err != nil {
		t.Fatal(err)
	}
	want("resized", 1, runtime.Running, 3)
	changed, err := e.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("with events followed again", 1, runtime.Running, 3)
	change(func(l *listed) { l.shares = 4 })
	api.events <- "update"
	if uid := <-changed; uid != "u" {
		t.Errorf("event of pod %s", uid)
	}
	change(func(l *listed) { // it changes once more while the engine answers
		l.meanwhile = func() { l.meanwhile, l.shares = nil, 5; e.drop("c") }
	})
	if _, err := e.Pod(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	want("changed meanwhile", 1, runtime.Running, 5)
	change(func(l *listed) { l.state = "exited" })
	want("ended", 1, runtime.Exited, 5)
	want("ended before", 0, runtime.Exited, 5)
}
