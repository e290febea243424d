package score

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Live serves a recording as a page that follows it, to this machine alone: it listens on 127.0.0.1, answers only
// requests with that name or localhost, and only under a path that can't be guessed.
type Live struct {
	recorder *Recorder
	listener net.Listener
	token    string
	host     map[string]bool
}

// NewLive listens on a port, or on a free one for 0. Serve ends it.
func NewLive(r *Recorder, port int) (*Live, error) {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	_, bound, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Live{recorder: r, listener: listener, token: rand.Text(),
		host: map[string]bool{"127.0.0.1:" + bound: true, "localhost:" + bound: true}}, nil
}

// URL is the page's address.
func (l *Live) URL() string { return "http://" + l.listener.Addr().String() + "/" + l.token + "/" }

// Serve answers until ctx ends, and returns after its last request.
func (l *Live) Serve(ctx context.Context) error {
	server := &http.Server{Handler: l, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ended <- server.Shutdown(context.WithoutCancel(ctx)) // streams end with ctx
	}()
	if err := server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// ServeHTTP serves the page and its entries.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	switch {
	case !l.host[r.Host]:
		http.Error(w, "this page is for 127.0.0.1 alone", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case same(r.URL.Path, "/"+l.token+"/"):
		header.Set("Content-Type", "text/html; charset=utf-8")
		empty := Score{APIVersion: APIVersion, Kind: Kind, Started: l.recorder.started}
		_ = empty.writePage(w, "Live score", "events") // the client went away
	case same(r.URL.Path, "/"+l.token+"/events"):
		l.stream(w, r)
	default:
		http.NotFound(w, r)
	}
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// part is what one event of the stream has.
type part struct {
	Entries   []Entry           `json:"entries"`
	Dropped   int               `json:"dropped"`
	Limit     int               `json:"limit"`
	Gaps      []Gap             `json:"gaps"`
	Unwatched map[string]string `json:"unwatched"`
}

// maxPart bounds how many entries an event has.
const maxPart = 2000

// stream sends entries as they come. A client that comes back goes on after the last event that it got.
func (l *Live) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	position, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	for {
		entries, next, err := l.recorder.Next(r.Context(), position)
		if errors.Is(err, ErrEnded) {
			fmt.Fprint(w, "event: end\ndata: {}\n\n")
			_ = control.Flush()
		}
		if err != nil {
			return
		}
		for len(entries) > 0 {
			n := min(len(entries), maxPart)
			position = next - (len(entries) - n)
			if l.send(w, position, entries[:n]) != nil || control.Flush() != nil {
				return
			}
			entries = entries[n:]
		}
	}
}

func (l *Live) send(w http.ResponseWriter, position int, entries []Entry) error {
	text, err := json.Marshal(l.recorder.part(entries))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", position, text)
	return err
}
