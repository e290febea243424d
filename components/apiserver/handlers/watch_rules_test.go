package handlers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/cache"
)

// stream is the response to a watch, read event by event.
type stream struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Scanner
	stop   func()
}

// watch begins one over a connection.
func (s *served) watch(path string, headers ...string) *stream {
	s.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			s.Error(err)
		}
		s.api.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	}))
	ctx, cancel := context.WithCancel(s.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := server.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		cancel()
		_ = response.Body.Close()
		server.Close()
	})
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		s.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{t: s.T, header: response.Header, lines: lines, stop: cancel}
}

// next is the next event; nil at the end of the watch.
func (s *stream) next() map[string]any {
	s.t.Helper()
	if !s.lines.Scan() {
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal(s.lines.Bytes(), &out); err != nil {
		s.t.Fatalf("%v: %s", err, s.lines.Bytes())
	}
	return out
}

// expect checks the types of the next events, with the names of their objects.
func (s *stream) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		event := s.next()
		name, _ := at(event, "object", "metadata", "name").(string)
		if got := strings.TrimSpace(fmt.Sprint(event["type"], " ", name)); got != w {
			s.t.Fatalf("got %q, want %q: %v", got, w, event)
		}
	}
}

// TestWatchEvents: every change is told once and in order, and a selector makes of some changes comings and goings.
func TestWatchEvents(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x","labels":{"a":"1"}}}`)
	s.settle()
	all := s.watch(mapsPath + "?watch=1")
	chosen := s.watch(mapsPath + "?watch=1&labelSelector=a%3D1")
	named := s.watch("/api/v1/watch/namespaces/a/configmaps/x")
	if got := all.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("streamed as %q", got)
	}
	for _, w := range []*stream{all, chosen, named} {
		w.expect("ADDED x")
	}
	relabel := func(value string) {
		s.must(200, "PATCH", mapPath, `{"metadata":{"labels":{"a":"`+value+`"}}}`, "Content-Type", mergePatch)
	}
	relabel("2")
	relabel("1")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"y"}}`)
	s.must(200, "DELETE", mapPath, "")
	all.expect("MODIFIED x", "MODIFIED x", "ADDED y", "DELETED x")
	chosen.expect("DELETED x", "ADDED x", "DELETED x")
	named.expect("MODIFIED x", "MODIFIED x", "DELETED x")
}

// TestWatchFrom: a watch begins after the version that it names, with what there is, or with what there was.
func TestWatchFrom(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.settle() // what was before a server began can't be watched any more
	made := s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"}}`).content(t)
	version := at(made, "metadata", "resourceVersion").(string)
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"y"}}`)
	s.settle()
	s.watch(mapsPath+"?watch=1").expect("ADDED x", "ADDED y")
	s.watch(mapsPath+"?watch=1&resourceVersion=0").expect("ADDED x", "ADDED y")
	s.watch(mapsPath + "?watch=1&resourceVersion=" + version).expect("ADDED y")
	w := s.watch(mapsPath +
		"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	w.expect("ADDED x", "ADDED y")
	mark := w.next()
	if mark["type"] != "BOOKMARK" || at(mark, "object", "kind") != "ConfigMap" ||
		at(mark, "object", "metadata", "annotations", metav1.InitialEventsAnnotationKey) != "true" ||
		at(mark, "object", "metadata", "resourceVersion") == nil {
		t.Errorf("the initial events end with %v", mark)
	}
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"z"}}`)
	w.expect("ADDED z")
	off := serve(t, func(c *Config) { c.NoWatchList = true }, "configmaps")
	off.refused(map[string]refusal{"initial events where they are off": {"GET",
		mapsPath + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "", nil, 422,
		metav1.StatusReasonInvalid,
		`ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents ` +
			`is forbidden for watch unless the WatchList feature gate is enabled`}})
}

// TestWatchForms: events in the shape that is asked for; columns are sent but once.
func TestWatchForms(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"},"data":{"k":"v"}}`)
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"y"}}`)
	s.settle()
	w := s.watch(mapsPath+"?watch=1", "Accept", asTable)
	for i, name := range []string{"x", "y"} {
		e := w.next()
		columns, _ := at(e, "object", "columnDefinitions").([]any)
		if e["type"] != "ADDED" || at(e, "object", "kind") != "Table" || (len(columns) == 3) != (i == 0) ||
			at(e, "object", "rows", 0, "cells", 0) != name ||
			at(e, "object", "rows", 0, "object", "kind") != "PartialObjectMetadata" {
			t.Errorf("row %d: %v", i, e)
		}
	}
	w = s.watch(mapsPath+"?watch=1&includeObject=None", "Accept", asTable)
	if e := w.next(); at(e, "object", "rows", 0, "object") != nil {
		t.Errorf("a row without its object: %v", e)
	}
	w = s.watch(mapsPath+"?watch=1", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	if e := w.next(); at(e, "object", "kind") != "PartialObjectMetadata" || at(e, "object", "data") != nil ||
		at(e, "object", "metadata", "name") != "x" {
		t.Errorf("metadata alone: %v", e)
	}
	r := s.do("GET", mapsPath+"?watch=1", "", "Accept", "application/yaml")
	const want = "code: 406\nkind: Status\nmessage: 'only the following media types are accepted: " +
		"application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'\n"
	if r.Code != 406 || !strings.Contains(r.Body.String(), want) {
		t.Errorf("YAML, which can't be streamed: %d %s", r.Code, r.Body)
	}
}

// TestWatchFailures: what keeps a watch from going on is told as its last event.
func TestWatchFailures(t *testing.T) {
	s := serve(t, nil, "configmaps")
	s.must(201, "POST", mapsPath, `{"metadata":{"name":"x"}}`)
	s.settle()
	for query, want := range map[string]metav1.Status{
		"resourceVersion=999999&timeoutSeconds=-1": {Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: "context deadline exceeded"},
		"timeoutSeconds=-1": {Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: "context deadline exceeded"},
	} {
		w := s.watch(mapsPath + "?watch=1&" + query)
		e := w.next()
		if e["type"] != "ERROR" || at(e, "object", "kind") != "Status" || at(e, "object",
			"code") != float64(want.Code) ||
			at(e, "object", "reason") != string(want.Reason) || at(e, "object", "message") != want.Message ||
			at(e, "object", "status") != "Failure" {
			t.Errorf("%s: %v", query, e)
		}
		if e := w.next(); e != nil {
			t.Errorf("%s: goes on with %v", query, e)
		}
	}
	s.refused(map[string]refusal{
		"a version that is none": {"GET", mapsPath + "?watch=1&resourceVersion=x", "", nil, 500, "",
			`resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
	})
}

// TestSendFrames: each event is a message of its own where there are such, and their sizes are told in any case.
func TestSendFrames(t *testing.T) {
	gone := errors.New("the client is gone")
	for name, c := range map[string]struct {
		ends   []int
		single bool
		fails  int // the message that can't be sent, counted from 1
		want   string
		sizes  string
	}{
		"together":              {ends: []int{2, 5}, want: "[aabbb]", sizes: "[2 3]"},
		"one by one":            {ends: []int{2, 5}, single: true, want: "[aa bbb]", sizes: "[2 3]"},
		"nothing":               {want: "[]", sizes: "[]"},
		"nothing one by one":    {single: true, want: "[]", sizes: "[]"},
		"to no client":          {ends: []int{2, 5}, fails: 1, want: "[]", sizes: "[2 3]"},
		"to no client any more": {ends: []int{2, 5}, single: true, fails: 2, want: "[aa]", sizes: "[2 3]"},
	} {
		var sent []string
		sizes, tries := []int{}, 0
		out := outlet{single: c.single, send: func(b []byte) error {
			if tries++; tries == c.fails {
				return gone
			}
			sent = append(sent, string(b))
			return nil
		}}
		err := out.sendFrames(&cache.Frames{Bytes: []byte("aabbb"), Ends: c.ends}, func(n int) {
			sizes = append(sizes,
				n)
		})
		if fmt.Sprint(sent) != c.want || fmt.Sprint(sizes) != c.sizes || errors.Is(err, gone) != (c.fails > 0) {
			t.Errorf("%s: sent %q of %v, %v", name, sent, sizes, err)
		}
	}
}
