package score

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	pageSize = 500
	// firstRetry and lastRetry bound how long a follower waits before it tries again.
	firstRetry, lastRetry = 50 * time.Millisecond, 2 * time.Second
	// absence is after what time a resource that is not found counts as gone.
	absence = 5 * time.Second
)

// watchEvent is a line of a watch.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// follower lists and watches one resource, whatever happens to the API server.
type follower struct {
	recorder *Recorder
	of       resource
	late     bool          // it came after the recording began
	ready    chan struct{} // closed when the watch is established, or can't be
	once     sync.Once

	served bool      // there was a watch
	absent time.Time // since when the resource is not found; zero when it is
	ended  time.Time // when the last watch ended; zero while there is one
	lost   bool      // the watch could not go on from where it ended
	failed bool      // a request failed since then
}

// run follows until ctx ends or the resource is gone.
func (f *follower) run(ctx context.Context) {
	defer f.once.Do(func() { close(f.ready) })
	version, retry := "", firstRetry
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = f.list(ctx)
		}
		if err == nil {
			var established bool
			version, established, err = f.watch(ctx, version)
			if established {
				retry = firstRetry
			}
		}
		switch {
		case err == nil:
			pause(ctx, firstRetry)
			continue
		case f.hopeless(err):
			return
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			version, f.lost = "", true
			continue
		}
		f.failed = true
		pause(ctx, retry)
		retry = min(2*retry, lastRetry)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// hopeless ends the following of a resource that is gone, or may not be watched. An API server that starts may know
// neither its custom resources nor its users for a while, so that one that was watched gets time to come back.
func (f *follower) hopeless(err error) bool {
	switch {
	case !apierrors.IsNotFound(err):
		f.absent = time.Time{}
	case f.absent.IsZero():
		f.absent = time.Now()
	}
	switch {
	case apierrors.IsNotFound(err) && (!f.served || time.Since(f.absent) > absence):
		f.recorder.arrivals.put(arrival{at: time.Now(), of: f.of, listed: true, late: f.late})
		f.recorder.forget(f.of, "")
		return true
	case f.served:
		return false
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsMethodNotSupported(err):
		f.recorder.forget(f.of, err.Error())
		return true
	}
	return false
}

// list reads all objects and returns the version from which to watch.
func (f *follower) list(ctx context.Context) (string, error) {
	var page struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	var items []json.RawMessage
	for {
		request := f.recorder.clients.watch.Get().AbsPath(f.of.path()).Param("limit", strconv.Itoa(pageSize))
		if page.Metadata.Continue != "" {
			request = request.Param("continue", page.Metadata.Continue)
		}
		result := request.Do(ctx)
		if err := result.Error(); err != nil {
			return "", err
		}
		raw, err := result.Raw()
		if err != nil {
			return "", err
		}
		page.Metadata, page.Items = metav1.ListMeta{}, nil
		if err := json.Unmarshal(raw, &page); err != nil {
			return "", err
		}
		items = append(items, page.Items...)
		if page.Metadata.Continue == "" {
			break
		}
	}
	f.recorder.arrivals.put(arrival{at: time.Now(), of: f.of, list: items, listed: true, late: f.late})
	return page.Metadata.ResourceVersion, nil
}

// watch follows from a version, and returns that from which to go on.
func (f *follower) watch(ctx context.Context, version string) (last string, established bool, err error) {
	stream, err := f.recorder.clients.watch.Get().AbsPath(f.of.path()).Param("watch", "true").
		Param("resourceVersion", version).Param("allowWatchBookmarks", "true").Stream(ctx)
	if err != nil {
		return version, false, err
	}
	defer stream.Close()
	f.established()
	last, err = f.read(ctx, stream, version)
	f.ended = time.Now()
	return last, true, err
}

// established tells of the time in which there was no watch, if anything went wrong in it.
func (f *follower) established() {
	if !f.ended.IsZero() && (f.failed || f.lost) {
		f.recorder.addGap(Gap{Resource: f.of.String(), From: f.recorder.since(f.ended),
			To: f.recorder.since(time.Now()), Lost: f.lost})
	}
	f.ended, f.absent, f.failed, f.lost, f.served = time.Time{}, time.Time{}, false, false, true
	f.once.Do(func() { close(f.ready) })
}

// read passes the lines of a watch on. Only the last one's version is looked at, as it is where the next watch begins.
func (f *follower) read(ctx context.Context, stream io.Reader, version string) (string, error) {
	lines := bufio.NewReaderSize(stream, 32<<10)
	var last []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line without an end was cut off
			if errors.Is(err, io.EOF) {
				err = nil // the server ended the watch, or itself
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return versionOf(last, version), err
		}
		kind, object := eventOf(line)
		if kind == "ERROR" {
			return versionOf(last, version), statusOf(object)
		}
		last = object
		if kind != "BOOKMARK" {
			f.recorder.arrivals.put(arrival{at: time.Now(), of: f.of, kind: kind, raw: object})
		}
	}
}

// eventOf is the type and the object of a line. Lines as API servers write them are cut apart without being decoded.
func eventOf(line []byte) (kind string, object []byte) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`)); ok {
		name, rest, _ := bytes.Cut(rest, []byte(`","object":`))
		if object, ok := bytes.CutSuffix(bytes.TrimSpace(rest), []byte("}")); ok && !bytes.ContainsRune(name, '"') {
			return string(name), object
		}
	}
	var event watchEvent
	_ = json.Unmarshal(line, &event) // what is no event has no type
	return event.Type, event.Object
}

// versionOf is the resource version of an object, or the one before if there is none.
func versionOf(object []byte, before string) string {
	h, err := headOf(object)
	if object == nil || err != nil || h.ResourceVersion == "" {
		return before
	}
	return h.ResourceVersion
}

// statusOf is the error that ended a watch.
func statusOf(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil {
		return err
	}
	return &apierrors.StatusError{ErrStatus: status}
}
