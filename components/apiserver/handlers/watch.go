package handlers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/registry"
)

// minWatch is the least duration of a watch whose request sets no timeout; it ends at a random time before twice that,
// so that not all watches are restarted at once.
const minWatch = 30 * time.Minute

// watchStream is the response to a watch, which grows.
type watchStream struct {
	*responder
	*registry.Request
}

// watch sends changes as they come.
func (c *call) watch() error {
	o, predicate, err := c.listOptions()
	switch {
	case err != nil:
		return err
	case c.Kind.Custom == nil && !slices.Contains(c.verbs, "watch"):
		return apierrors.NewMethodNotSupported(c.Resource, "watch")
	}
	s := &watchStream{&c.out, &c.Request}
	events, err := s.eventWriter()
	if err != nil {
		return err
	}
	if err := c.convertible(); err != nil {
		return c.unready(err)
	}
	timeout := c.api.config.MinWatch + rand.N(c.api.config.MinWatch)
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	useful, behind := context.WithCancel(ctx)
	defer behind()
	watcher, err := c.Cache.Watch(ctx, cache.WatchOptions{
		Behind:    behind,
		Namespace: c.Namespace, ResourceVersion: o.ResourceVersion, Predicate: predicate,
		Bookmarks: o.AllowWatchBookmarks, SendInitialEvents: o.SendInitialEvents,
		Deadline: c.api.config.Clock.Now().Add(timeout),
	})
	if err == nil {
		defer watcher.Close()
	}
	err = c.unready(err)
	feed := func(ctx context.Context, out outlet) { s.follow(ctx, watcher, events, out) }
	if (err != nil || timeout < 0) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// it was over before it began
		feed, err = func(_ context.Context, out outlet) { s.sendFailure(out, errOver) }, nil
	}
	switch streamed := c.out.choice.Stream(c.api.config.CBOR); {
	case err == nil:
		err = streamed
	case apierrors.IsResourceExpired(err), apierrors.IsTimeout(err), errors.Is(err, cache.ErrUntold):
		// A version that is too old, or too new, is told as if the watch had begun.
		failure := err
		feed, err = func(_ context.Context, out outlet) { s.sendFailure(out, failure) }, streamed
	}
	if err != nil {
		return err
	}
	if wsstream.IsWebSocketRequest(c.r) {
		s.overWebSocket(ctx, func(ctx context.Context, out outlet) {
			defer cutOff(useful, out.expire)()
			feed(ctx, out)
		})
		return nil
	}
	s.overHTTP(ctx, func(ctx context.Context, out outlet) {
		defer cutOff(useful, out.expire)()
		feed(ctx, out)
	})
	return nil
}

// responseGrace is how long an ended watch may take to send its remaining events.
const responseGrace = 5 * time.Second

// cutOff makes writes fail some time after ctx has ended: a client that doesn't read must not keep a watch that is
// over. The returned function ends that.
func cutOff(ctx context.Context, expire func(time.Time) error) (end func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = expire(time.Now().Add(responseGrace))
	})
	return func() {
		if !stop() {
			<-set
			_ = expire(time.Time{}) // the connection may serve others
		}
	}
}

// outlet is the way to the client of a watch.
type outlet struct {
	// send passes framed events on, at once. It fails when the client is gone.
	send func(events []byte) error
	// expire sets when sending fails that still waits for the client.
	expire func(time.Time) error
	// single tells that each event is a message of its own.
	single bool
}

// sendFrames passes events on, and their sizes to sent.
func (o *outlet) sendFrames(frames *cache.Frames, sent func(bytes int)) error {
	begin := 0
	for _, end := range frames.Ends {
		sent(end - begin)
		if o.single {
			if err := o.send(frames.Bytes[begin:end]); err != nil {
				return err
			}
		}
		begin = end
	}
	if o.single || begin == 0 {
		return nil
	}
	return o.send(frames.Bytes)
}

// overHTTP sends what feed produces as a response that grows.
func (s *watchStream) overHTTP(ctx context.Context, feed func(context.Context, outlet)) {
	s.w.Header().Set("Content-Type", s.choice.Media.StreamType())
	s.w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(s.w)
	_ = flusher.Flush()
	feed(ctx, outlet{expire: flusher.SetWriteDeadline, send: func(events []byte) error {
		if _, err := s.w.Write(events); err != nil {
			return err
		}
		return flusher.Flush()
	}})
}

// follow sends events until the watch or the client ends; each batch is flushed once.
func (s *watchStream) follow(ctx context.Context, watcher *cache.Watcher, events eventWriter, out outlet) {
	sent, start := func(int) {}, time.Now()
	meter := s.api.config.Meter
	if meter != nil {
		sent = meter.Sent(s.Version.WithResource(s.Kind.Resource))
	}
	begun := false
	for {
		if !begun && watcher.Begun() {
			begun = true
			flowcontrol.WatchInitialized(ctx) // what comes now is no burden any more
		}
		batch, err := watcher.Next(ctx)
		var frames *cache.Frames
		if err == nil {
			frames, err = events.frame(watcher, s.own(batch))
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoEvents), errors.Is(err, cache.ErrBehind), apierrors.IsServiceUnavailable(err):
			return // the resource, or the server, goes, or the client is too slow: it comes back
		case s.ends(err):
			return
		case err != nil:
			s.sendFailure(out, err)
			return
		case out.sendFrames(frames, sent) != nil:
			return
		}
		if meter != nil && endsInitial(batch) {
			meter.Began(s.Version.WithResource(s.Kind.Resource), s.metricScope(), time.Since(start))
		}
	}
}

// own makes a bookmark of a custom resource one of the version that is asked for: it is not a stored object, and a
// webhook that converts must neither see it nor lose its annotation.
func (s *watchStream) own(events []cache.Event) []cache.Event {
	last := len(events) - 1 // which is where bookmarks stand
	if last < 0 || events[last].Type != cache.Bookmark || s.Kind.Custom == nil || s.Version.FromHub == nil {
		return events
	}
	of := events[last].Entry
	obj := s.Version.New()
	obj.GetObjectKind().SetGroupVersionKind(s.Version.WithKind(s.Kind.Name))
	obj.SetResourceVersion(of.Object.GetResourceVersion())
	obj.SetAnnotations(of.Object.GetAnnotations())
	bookmark := cache.Event{Type: cache.Bookmark, Entry: &cache.Entry{Revision: of.Revision, Object: obj}}
	return append(slices.Clone(events[:last]), bookmark)
}

// endsInitial tells whether events say that the client now knows what there was when the watch began.
func endsInitial(events []cache.Event) bool {
	if len(events) == 0 || events[len(events)-1].Type != cache.Bookmark {
		return false
	}
	return events[len(events)-1].Entry.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// metricScope is what the call is about, as metrics have it.
func (s *watchStream) metricScope() string {
	switch {
	case s.Name != "":
		return "resource"
	case s.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// sendFailure ends a watch by an event that says why.
func (s *watchStream) sendFailure(out outlet, failure error) {
	kind := metav1.Unversioned.WithKind("Status")
	if body, err := codec.Body(answer.StatusOf(s.ctx, failure), kind, s.choice.Media); err == nil {
		_ = out.send(codec.AppendWatchEvent(nil, s.choice.Media, "ERROR", kind, body))
	}
}

// eventWriter writes the events of one watch. What it returns is good until the next call.
type eventWriter interface {
	frame(watcher *cache.Watcher, events []cache.Event) (*cache.Frames, error)
}

func (s *watchStream) eventWriter() (eventWriter, error) {
	switch s.choice.Shape {
	case negotiate.Table:
		include, err := s.rowObject()
		return &tableEvents{responder: s.responder, include: include}, err
	case negotiate.Metadata:
		return &objectEvents{format: s.metadata()}, nil
	case negotiate.MetadataList:
		return noEvents{}, nil
	}
	return &objectEvents{format: s.Format(s.choice.Media, cache.Whole)}, nil
}

// noEvents is asked for a list of each object, which can't be made: a watch ends without a word when there is something
// to be sent.
type noEvents struct{}

func (noEvents) frame(_ *cache.Watcher, events []cache.Event) (*cache.Frames, error) {
	if len(events) == 0 {
		return &cache.Frames{}, nil
	}
	return nil, errNoEvents
}

// errOver is the error of a watch request that has timed out already.
var errOver = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
	Message: context.DeadlineExceeded.Error(),
}}

var errNoEvents = errors.New("an object is no list")

type objectEvents struct {
	format *cache.Format
	frames cache.Frames
}

func (o *objectEvents) frame(watcher *cache.Watcher, events []cache.Event) (*cache.Frames, error) {
	return watcher.Frame(o.format, events, &o.frames)
}

// tableEvents sends each object as a Table of one row; only the first has the columns.
type tableEvents struct {
	*responder
	include metav1.IncludeObjectPolicy
	started bool
	frames  cache.Frames
}

func (t *tableEvents) frame(_ *cache.Watcher, events []cache.Event) (_ *cache.Frames, err error) {
	t.frames.Reset()
	for _, e := range events {
		if t.frames.Bytes, err = t.append(t.frames.Bytes, e); err != nil {
			return nil, err
		}
		t.frames.Ends = append(t.frames.Ends, len(t.frames.Bytes))
	}
	return t.frames.Given(), nil
}

func (t *tableEvents) append(buf []byte, e cache.Event) ([]byte, error) {
	include := t.include
	if e.Type == cache.Bookmark && include == metav1.IncludeNone && len(e.Entry.Object.GetAnnotations()) > 0 {
		include = metav1.IncludeMetadata // which says that the initial events are over
	}
	table := codec.Table{
		Kind: codec.TableKind(t.choice.Version),
		Meta: metav1.ListMeta{ResourceVersion: e.Entry.Object.GetResourceVersion()},
		Rows: t.rows(include).Make([]*cache.Entry{e.Entry}),
		Now:  t.api.config.Clock.Now(),
	}
	if !t.started {
		t.started, table.Columns = true, t.Columns()
	}
	body, err := codec.TableBody(table)
	if err != nil {
		return buf, err
	}
	return codec.AppendWatchEvent(buf, codec.JSON, string(e.Type), table.Kind, body), nil
}
