package score

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// serving is a live page that ends with the test.
func serving(t *testing.T, r *Recorder) *Live {
	t.Helper()
	live, err := NewLive(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- live.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return live
}

func ask(t *testing.T, method, url string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close(); http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return answer
}

func TestLivePageIsForThisMachineAlone(t *testing.T) {
	r, _ := recording(t, newServer(), Options{})
	live := serving(t, r)
	if !strings.HasPrefix(live.URL(), "http://127.0.0.1:") || len(live.token) < 26 {
		t.Errorf("served at %s", live.URL())
	}
	root := strings.TrimSuffix(live.URL(), live.token+"/")
	rebound := func(r *http.Request) { r.Host = "attacker.example" }
	for name, c := range map[string]struct {
		method, url string
		change      func(*http.Request)
		want        int
	}{
		"page": {http.MethodGet, live.URL(), nil, http.StatusOK},
		"localhost": {http.MethodGet, live.URL(), func(r *http.Request) {
			r.Host = "localhost" +
				r.Host[len("127.0.0.1"):]
		}, 200},
		"rebound":       {http.MethodGet, live.URL(), rebound, http.StatusMisdirectedRequest},
		"rebound feed":  {http.MethodGet, live.URL() + "events", rebound, http.StatusMisdirectedRequest},
		"without token": {http.MethodGet, root, nil, http.StatusNotFound},
		"another token": {http.MethodGet, root + strings.Repeat("A", len(live.token)) + "/events", nil, http.StatusNotFound},
		"write":         {http.MethodPost, live.URL(), nil, http.StatusMethodNotAllowed},
	} {
		if got := ask(t, c.method, c.url, c.change).StatusCode; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestLivePageGetsEntriesAsTheyCome(t *testing.T) {
	r, watch := recording(t, newServer(), Options{})
	live := serving(t, r)
	watch <- line("ADDED", podText("a", "2", 2, 0, ""))
	await(t, r, 1)
	feed := ask(t, http.MethodGet, live.URL()+"events", nil)
	if kind := feed.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the feed is %s", kind)
	}
	lines := bufio.NewReader(feed.Body)
	if id, got := next(t, lines); id != "id: 1" || len(got.Entries) != 1 || got.Entries[0].Object.Name != "a" {
		t.Errorf("%s: %+v", id, got)
	}
	watch <- line("ADDED", podText("b", "3", 3, 0, ""))
	if id, got := next(t, lines); id != "id: 2" || len(got.Entries) != 1 || got.Entries[0].Object.Name != "b" {
		t.Errorf("%s: %+v", id, got)
	}
	again := ask(t, http.MethodGet, live.URL()+"events", func(r *http.Request) { r.Header.Set("Last-Event-ID", "1") })
	if id, got := next(t, bufio.NewReader(again.Body)); id != "id: 2" || len(got.Entries) != 1 {
		t.Errorf("a client that comes back gets %s: %+v", id, got)
	}
	r.Stop()
	if rest, err := io.ReadAll(lines); err != nil || !strings.Contains(string(rest), "event: end") {
		t.Errorf("the end is %q, %v", rest, err)
	}
}

// next reads an event of a feed.
func next(t *testing.T, lines *bufio.Reader) (id string, got part) {
	t.Helper()
	var text [3]string
	for i := range text {
		var err error
		if text[i], err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text[1], "data: ")), &got); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text[0]), got
}
