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
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
)

// minWatch is how long a watch lives at least if nobody says; it ends at random before twice that, so that not all watches
// come back at once.
const minWatch = 30 * time.Minute

// watch sends changes as they come.
func (c *call) watch() error {
	o, predicate, err := c.listOptions()
	switch {
	case err != nil:
		return err
	case c.kind.Custom == nil && !slices.Contains(c.verbs, "watch"):
		return apierrors.NewMethodNotSupported(c.resource, "watch")
	}
	events, err := c.eventWriter()
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
	watcher, err := c.cache.Watch(ctx, cache.WatchOptions{
		Behind:    behind,
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, Predicate: predicate,
		Bookmarks: o.AllowWatchBookmarks, SendInitialEvents: o.SendInitialEvents,
		Deadline: c.api.config.Clock.Now().Add(timeout),
	})
	if err == nil {
		defer watcher.Close()
	}
	err = c.unready(err)
	feed := func(ctx context.Context, out outlet) { c.follow(ctx, watcher, events, out) }
	if (err != nil || timeout < 0) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		feed, err = func(_ context.Context, out outlet) { c.sendFailure(out, errOver) }, nil // it was over before it began
	}
	switch streamed := c.choice.Stream(c.api.config.CBOR); {
	case err == nil:
		err = streamed
	case apierrors.IsResourceExpired(err), apierrors.IsTimeout(err), errors.Is(err, cache.ErrUntold):
		// A version that is too old, or too new, is told as if the watch had begun.
		failure := err
		feed, err = func(_ context.Context, out outlet) { c.sendFailure(out, failure) }, streamed
	}
	if err != nil {
		return err
	}
	if wsstream.IsWebSocketRequest(c.r) {
		c.overWebSocket(ctx, func(ctx context.Context, out outlet) {
			defer cutOff(useful, out.expire)()
			feed(ctx, out)
		})
		return nil
	}
	c.overHTTP(ctx, func(ctx context.Context, out outlet) {
		defer cutOff(useful, out.expire)()
		feed(ctx, out)
	})
	return nil
}

// lastWords is how long a watch that is over may go on to send what it has.
const lastWords = 5 * time.Second

// cutOff makes writes fail some time after ctx has ended: a client that doesn't read must not keep a watch that is over. The
// returned function ends that.
func cutOff(ctx context.Context, expire func(time.Time) error) (end func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = expire(time.Now().Add(lastWords))
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
func (c *call) overHTTP(ctx context.Context, feed func(context.Context, outlet)) {
	c.w.Header().Set("Content-Type", c.choice.Media.StreamType())
	c.w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(c.w)
	_ = flusher.Flush()
	feed(ctx, outlet{expire: flusher.SetWriteDeadline, send: func(events []byte) error {
		if _, err := c.w.Write(events); err != nil {
			return err
		}
		return flusher.Flush()
	}})
}

// follow sends events until the watch or the client ends; each batch is flushed once.
func (c *call) follow(ctx context.Context, watcher *cache.Watcher, events eventWriter, out outlet) {
	sent, start := func(int) {}, time.Now()
	meter := c.api.config.Meter
	if meter != nil {
		sent = meter.Sent(c.version.WithResource(c.kind.Resource))
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
			frames, err = events.frame(watcher, c.own(batch))
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoEvents), errors.Is(err, cache.ErrBehind), apierrors.IsServiceUnavailable(err):
			return // the resource, or the server, goes, or the client is too slow: it comes back
		case c.ends(err):
			return
		case err != nil:
			c.sendFailure(out, err)
			return
		case out.sendFrames(frames, sent) != nil:
			return
		}
		if meter != nil && endsInitial(batch) {
			meter.Began(c.version.WithResource(c.kind.Resource), c.metricScope(), time.Since(start))
		}
	}
}

// own makes a bookmark of a custom resource one of the version that is asked for: it is no object of anybody's, and a
// webhook that converts must neither see it nor lose its annotation.
func (c *call) own(events []cache.Event) []cache.Event {
	last := len(events) - 1 // which is where bookmarks stand
	if last < 0 || events[last].Type != cache.Bookmark || c.kind.Custom == nil || c.version.FromHub == nil {
		return events
	}
	of := events[last].Entry
	obj := c.version.New()
	obj.GetObjectKind().SetGroupVersionKind(c.version.WithKind(c.kind.Name))
	obj.SetResourceVersion(of.Object.GetResourceVersion())
	obj.SetAnnotations(of.Object.GetAnnotations())
	return append(slices.Clone(events[:last]), cache.Event{Type: cache.Bookmark, Entry: &cache.Entry{Revision: of.Revision, Object: obj}})
}

// endsInitial tells whether events say that the client now knows what there was when the watch began.
func endsInitial(events []cache.Event) bool {
	if len(events) == 0 || events[len(events)-1].Type != cache.Bookmark {
		return false
	}
	return events[len(events)-1].Entry.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// metricScope is what the call is about, as metrics have it.
func (c *call) metricScope() string {
	switch {
	case c.name != "":
		return "resource"
	case c.namespace != "":
		return "namespace"
	}
	return "cluster"
}

// sendFailure ends a watch by an event that says why.
func (c *call) sendFailure(out outlet, failure error) {
	kind := metav1.Unversioned.WithKind("Status")
	if body, err := serial.Body(answer.StatusOf(c.ctx, failure), kind, c.choice.Media); err == nil {
		_ = out.send(serial.AppendWatchEvent(nil, c.choice.Media, "ERROR", kind, body))
	}
}

// eventWriter writes the events of one watch. What it returns is good until the next call.
type eventWriter interface {
	frame(watcher *cache.Watcher, events []cache.Event) (*cache.Frames, error)
}

func (c *call) eventWriter() (eventWriter, error) {
	switch c.choice.Shape {
	case negotiate.Table:
		include, err := c.rowObject()
		return &tableEvents{call: c, include: include}, err
	case negotiate.Metadata:
		return &objectEvents{format: c.metadata()}, nil
	case negotiate.MetadataList:
		return noEvents{}, nil
	}
	return &objectEvents{format: c.format(c.choice.Media, cache.Whole)}, nil
}

// noEvents is asked for a list of each object, which can't be made: a watch ends without a word when there is something to be sent.
type noEvents struct{}

func (noEvents) frame(_ *cache.Watcher, events []cache.Event) (*cache.Frames, error) {
	if len(events) == 0 {
		return &cache.Frames{}, nil
	}
	return nil, errNoEvents
}

// errOver is told to those who ask for a watch that is over already.
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
	call    *call
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
	table := serial.Table{
		Kind: serial.TableKind(t.call.choice.Version),
		Meta: metav1.ListMeta{ResourceVersion: e.Entry.Object.GetResourceVersion()},
		Rows: t.call.rows(include).Make([]*cache.Entry{e.Entry}),
		Now:  t.call.api.config.Clock.Now(),
	}
	if !t.started {
		t.started, table.Columns = true, t.call.columns()
	}
	body, err := serial.TableBody(table)
	if err != nil {
		return buf, err
	}
	return serial.AppendWatchEvent(buf, serial.JSON, string(e.Type), table.Kind, body), nil
}
