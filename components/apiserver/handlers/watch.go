package handlers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
)

// minWatch is how long a watch lives at least if the client doesn't say; it ends at random before twice that, so that
// not all watches come back at once.
const minWatch = 30 * time.Minute

// watch sends changes as they come.
func (c *call) watch() error {
	choice, err := c.accept(watchOffer)
	if err != nil {
		return err
	}
	o, predicate, err := c.listOptions()
	if err != nil {
		return err
	}
	timeout := minWatch + rand.N(minWatch)
	if o.TimeoutSeconds != nil {
		timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	events, err := c.eventWriter(choice)
	if err != nil {
		return err
	}
	watcher, err := c.cache.Watch(ctx, cache.WatchOptions{
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, Predicate: predicate,
		Bookmarks: o.AllowWatchBookmarks, SendInitialEvents: o.SendInitialEvents,
	})
	if err != nil {
		return err
	}
	defer watcher.Close()
	c.stream(ctx, watcher, choice, events)
	return nil
}

// stream writes events until the watch or the client ends; each batch is flushed once.
func (c *call) stream(ctx context.Context, watcher *cache.Watcher, choice negotiate.Choice, events eventWriter) {
	c.w.Header().Set("Content-Type", choice.Media.StreamType())
	c.w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(c.w)
	_ = flusher.Flush()
	var buf []byte
	for {
		batch, err := watcher.Next(ctx)
		if err == nil {
			buf, err = events.appendTo(buf[:0], batch)
		} else {
			buf = buf[:0]
		}
		if err != nil {
			if ctx.Err() == nil {
				buf = appendFailure(ctx, buf, choice.Media, err)
				_, _ = c.w.Write(buf)
				_ = flusher.Flush()
			}
			return
		}
		if _, err := c.w.Write(buf); err != nil {
			return
		}
		if flusher.Flush() != nil {
			return
		}
	}
}

// appendFailure ends a watch by an event that says why.
func appendFailure(ctx context.Context, buf []byte, media serial.MediaType, err error) []byte {
	kind := metav1.Unversioned.WithKind("Status")
	body, err := serial.Body(answer.StatusOf(ctx, err), kind, media)
	if err != nil {
		return buf
	}
	return serial.AppendWatchEvent(buf, media, "ERROR", kind, body)
}

// eventWriter writes the events of one watch.
type eventWriter interface {
	appendTo(buf []byte, batch []cache.Event) ([]byte, error)
}

func (c *call) eventWriter(choice negotiate.Choice) (eventWriter, error) {
	switch choice.Shape {
	case "Table":
		include, err := c.rowObject()
		return &tableEvents{call: c, include: include}, err
	case "PartialObjectMetadata":
		return &objectEvents{media: choice.Media, format: c.format(choice.Media, cache.Metadata)}, nil
	}
	return &objectEvents{media: choice.Media, format: c.format(choice.Media, cache.Whole)}, nil
}

type objectEvents struct {
	media  serial.MediaType
	format *cache.Format
}

func (o *objectEvents) appendTo(buf []byte, batch []cache.Event) ([]byte, error) {
	for _, e := range batch {
		body, err := e.Entry.Encoded(o.format)
		if err != nil {
			return buf, err
		}
		buf = serial.AppendWatchEvent(buf, o.media, string(e.Type), o.format.Kind, body)
	}
	return buf, nil
}

// tableEvents sends each object as a Table of one row; only the first has the columns.
type tableEvents struct {
	call    *call
	include metav1.IncludeObjectPolicy
	started bool
}

func (t *tableEvents) appendTo(buf []byte, batch []cache.Event) ([]byte, error) {
	for _, e := range batch {
		table := serial.Table{
			Kind: serial.TableKind("v1"),
			Meta: metav1.ListMeta{ResourceVersion: e.Entry.Object.GetResourceVersion()},
			Rows: t.call.rows([]*cache.Entry{e.Entry}, t.include),
		}
		if e.Type == cache.Bookmark {
			table.Rows = t.call.bookmarkRow(e.Entry)
		}
		if !t.started {
			t.started, table.Columns = true, t.call.columns()
		}
		body, err := serial.TableBody(table)
		if err != nil {
			return buf, err
		}
		buf = serial.AppendWatchEvent(buf, serial.JSON, string(e.Type), table.Kind, body)
	}
	return buf, nil
}
