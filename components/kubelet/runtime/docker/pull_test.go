package docker

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// puller is an engine whose API is answered by pull; images can't be inspected.
func puller(t *testing.T, deadline time.Duration, pull http.HandlerFunc) *Engine {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1.41/images/create", pull)
	mux.HandleFunc("GET /v1.41/images/{name...}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"Id":"sha256:1","Size":7}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	host := "tcp://" + strings.TrimPrefix(server.URL, "http://")
	api, err := client.New(client.WithHost(host), client.WithAPIVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	return &Engine{api: api, options: Options{PullProgressDeadline: deadline}}
}

// say sends one message at once.
func say(w http.ResponseWriter, message string) {
	fmt.Fprintln(w, message)
	w.(http.Flusher).Flush()
}

func TestPull(t *testing.T) {
	const step = `{"status":"Downloading","progressDetail":{"current":%d,"total":9},"id":"abc"}`
	for name, test := range map[string]struct {
		deadline time.Duration
		pull     http.HandlerFunc
		fail     string
	}{
		"done": {time.Minute, func(w http.ResponseWriter, r *http.Request) {
			say(w, `{"status":"Pulling from app"}`)
			say(w, `{"status":"Download complete","id":"abc"}`)
		}, ""},
		"refused": {time.Minute, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"message":"no basic auth credentials"}`)
		}, "no basic auth credentials"},
		"fails half-way": {time.Minute, func(w http.ResponseWriter, r *http.Request) {
			say(w, `{"status":"Pulling from app"}`)
			say(w, `{"errorDetail":{"message":"unexpected EOF"},"error":"unexpected EOF"}`)
		}, "unexpected EOF"},
		"does not begin": {time.Millisecond, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"pulling image was cancelled: no progress for 1ms, last seen: nothing"},
		"stops": {50 * time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
			say(w, fmt.Sprintf(step, 3))
			for r.Context().Err() == nil { // the same again is no progress
				say(w, fmt.Sprintf(step, 3))
			}
		}, "no progress for 50ms, last seen: abc: Downloading 3/9"},
	} {
		t.Run(name, func(t *testing.T) {
			e := puller(t, test.deadline, test.pull)
			image, err := e.Pull(t.Context(), "reg.io/app:1", runtime.Credential{})
			if (err != nil) != (test.fail != "") || err != nil && !strings.Contains(err.Error(), test.fail) {
				t.Errorf("%+v, %v; want %q", image, err, test.fail)
			}
			if err == nil && (image.ID != "sha256:1" || image.SizeBytes != 7) {
				t.Errorf("image %+v", image)
			}
		})
	}
}

func TestPullSendsCredentials(t *testing.T) {
	var got registry.AuthConfig
	var failure error
	e := puller(t, 0, func(w http.ResponseWriter, r *http.Request) {
		data, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
		failure = errors.Join(err, json.Unmarshal(data, &got))
		if r.URL.Query().Get("fromImage") != "reg.io/app" || r.URL.Query().Get("tag") != "1" {
			failure = fmt.Errorf("asked for %s", r.URL)
		}
	})
	if _, err := e.Pull(t.Context(), "reg.io/app:1", runtime.Credential{Username: "me", Password: "p"}); err != nil {
		t.Fatal(err)
	}
	if failure != nil || got.Username != "me" || got.Password != "p" {
		t.Errorf("%+v, %v", got, failure)
	}
}

func TestProgressOf(t *testing.T) {
	for want, message := range map[string]jsonstream.Message{
		"Pulling from app":      {Status: "Pulling from app"},
		"abc: Download 3/9":     {Status: "Download", ID: "abc", Progress: &jsonstream.Progress{Current: 3, Total: 9}},
		"abc: Download":         {Status: "Download", ID: "abc", Progress: &jsonstream.Progress{}},
		"abc: Verifying digest": {Status: "Verifying digest", ID: "abc"},
	} {
		if got := progressOf(message); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
