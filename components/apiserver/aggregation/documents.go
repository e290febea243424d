package aggregation

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/openapi"
)

// documents are a server's OpenAPI documents. They are fetched on request; concurrent requests wait for the same
// answer, though not for long where there is an older one.
type documents struct {
	fetches singleflight.Group // by path

	mu  sync.Mutex // not held while something is fetched
	v2  fetched
	v3  fetched
	own map[string]string // made of v3: the documents of the group version
}

// copyState takes over what is held, before d is used. It counts as old.
func (d *documents) copyState(former *documents) {
	former.mu.Lock()
	defer former.mu.Unlock()
	d.v2, d.v3, d.own = former.v2, former.v3, former.own
	d.v2.at, d.v3.at = time.Time{}, time.Time{}
}

// fetched is an answer, of when it is, and whether there was one. What can't be fetched again stays as it was.
type fetched struct {
	at   time.Time
	etag string
	body []byte
}

const (
	documentFresh   = 30 * time.Second // how long a document is used without asking again
	documentTimeout = time.Minute      // large ones take their time

	// How long a client waits for a document: others are to be told to it in time, too.
	firstPatience  = 10 * time.Second
	refreshTimeout = time.Second // where there is what the server said before
)

var _ openapi.Source = route{}

// GroupVersion implements openapi.Source.
func (t route) GroupVersion() schema.GroupVersion { return t.groupVersion() }

// DocumentV2 implements openapi.Source.
func (t route) DocumentV2(ctx context.Context) *openapi.Document {
	d := &t.documents
	t.refresh(ctx, &d.v2, "/openapi/v2")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.v2.body == nil {
		return nil
	}
	return &openapi.Document{Hash: d.v2.etag, Body: d.v2.body}
}

// PathsV3 implements openapi.Source.
func (t route) PathsV3(ctx context.Context) map[string]string {
	d := &t.documents
	t.refresh(ctx, &d.v3, "/openapi/v3")
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// pathsIn reads a list of documents, and picks those of the group version and its group. nil says that there is no
// list.
func (t route) pathsIn(body []byte) (map[string]string, error) {
	if body == nil {
		return nil, nil
	}
	var list struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	own := map[string]string{}
	version := strings.TrimPrefix(t.path(), "/")
	for path, at := range list.Paths {
		// It must be where requests for it come by here.
		if u, err := url.Parse(at.ServerRelativeURL); err != nil || u.Host != "" || u.Path != "/openapi/v3/"+path {
			continue
		}
		if path == version || path == "apis/"+t.spec.Group {
			own[path] = at.ServerRelativeURL
		}
	}
	return own, nil
}

// refresh fetches a document again if it is old, and returns when that is done, takes too long, or ctx ends. The fetch
// goes on without the requests that started it, as long as Run does.
func (t route) refresh(ctx context.Context, f *fetched, path string) {
	d := &t.documents
	d.mu.Lock()
	due, wait := t.available && (f.at.IsZero() || t.owner.config.Clock.Since(f.at) >= documentFresh), refreshTimeout
	if f.at.IsZero() && f.body == nil {
		wait = firstPatience
	}
	d.mu.Unlock()
	if !due {
		return
	}
	done := d.fetches.DoChan(path, func() (any, error) {
		t.owner.lifecycle.within(ctx, func(ctx context.Context) { t.fetch(ctx, f, path) })
		return nil, nil
	})
	enough := t.owner.config.Clock.NewTimer(wait)
	defer enough.Stop()
	select {
	case <-done:
	case <-enough.C():
	case <-ctx.Done():
	}
}

// fetch asks for a document, and takes in what comes.
func (t route) fetch(ctx context.Context, f *fetched, path string) {
	d := &t.documents
	d.mu.Lock()
	etag := f.etag
	d.mu.Unlock()
	header := http.Header{"Accept": {"application/json"}, "X-Remote-User": {compiler}}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	got, err := t.get(ctx, path, header, documentTimeout)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to fetch OpenAPI document of extension server", "name", t.name,
			"path", path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.at = t.owner.config.Clock.Now()
	if err != nil || !f.take(got) || f != &d.v3 {
		return
	}
	own, err := t.pathsIn(f.body)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to read OpenAPI index of extension server", "name",
			t.name)
		return
	}
	d.own = own
}

// take takes in an answer, and reports whether it is another document. A server that says that it has none has none.
func (f *fetched) take(got *answer) (changed bool) {
	switch got.code {
	case http.StatusOK:
		f.body, f.etag = got.body, got.header.Get("ETag")
		if f.etag == "" {
			f.etag = fmt.Sprintf(`"%X"`, sha512.Sum512(got.body))
		}
		return true
	case http.StatusNotFound, http.StatusForbidden:
		changed = f.body != nil
		f.body, f.etag = nil, ""
	}
	return changed
}
