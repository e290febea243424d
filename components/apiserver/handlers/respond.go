package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/serial"
)

// entry answers with one stored object.
func (c *call) entry(code int, e *cache.Entry) error {
	c.found()
	switch c.choice.Shape {
	case negotiate.Table:
		return c.table(code, &cache.List{Revision: e.Revision, Entries: []*cache.Entry{e}}, e.Object.GetResourceVersion())
	case negotiate.Metadata:
		return c.body(code, c.metadata(), e)
	case negotiate.MetadataList:
		return c.notAList()
	}
	return c.body(code, c.format(c.choice.Media, cache.Whole), e)
}

// metadata is the format of objects of which only the metadata is wanted.
func (c *call) metadata() *cache.Format { return c.format(c.choice.Media, metadataShape(c.choice)) }

func metadataShape(choice negotiate.Choice) cache.Shape {
	if choice.Version == metav1beta1.SchemeGroupVersion.Version {
		return cache.MetadataV1beta1
	}
	return cache.Metadata
}

func (c *call) notAList() error {
	if c.kind.Custom != nil && !c.isScale() {
		return errors.New("content is not a list")
	}
	return negotiate.NotAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (*%s)", c.innerType(c.gvk.Kind)))
}

func (c *call) isAList() error {
	return negotiate.NotAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (*%s)", c.innerType(c.kind.ListKind())))
}

// innerType is what upstream calls a kind inside, which it tells in some messages.
func (c *call) innerType(kind string) string {
	if c.kind.Custom != nil && !c.isScale() {
		if kind == c.kind.ListKind() {
			return "unstructured.UnstructuredList"
		}
		return "unstructured.Unstructured"
	}
	if c.kind.Custom != nil {
		return c.gvk.Version + "." + kind
	}
	return innerPackage(c.gvk.Group) + "." + kind
}

func innerPackage(group string) string {
	switch name, _, _ := strings.Cut(group, "."); name {
	case "", "events":
		return "core"
	default:
		return name
	}
}

func (c *call) body(code int, f *cache.Format, e *cache.Entry) error {
	c.formed()
	c.auditEntry(f, e)
	return c.serialized(func() error {
		body, err := e.EncodedOnce(f)
		if err != nil {
			return err
		}
		return c.object(code, body, f.Kind)
	})
}

// found is told when there is something to answer with, and formed when it has the form that it is to be sent in.
func (c *call) found() {
	c.steps.Reach("About to write a response")
	c.answering = c.times.Begin()
}

func (c *call) formed() { c.times.Add(latency.Transform, c.answering) }

// object answers with a body of the kind given.
func (c *call) object(code int, body []byte, kind schema.GroupVersionKind) error {
	if c.choice.Pretty && c.choice.Media == serial.JSON {
		body = indent(body)
	}
	if before, after, ok := serial.Around(c.choice.Media, kind, len(body)); ok && len(before)+len(body)+len(after) < negotiate.GzipFrom {
		c.pieces(code, before, body, after)
		return nil
	}
	return c.send(code, func(w io.Writer) error { return serial.WriteObject(w, c.choice.Media, kind, body) })
}

// pieces answers with what is too small to be compressed.
func (c *call) pieces(code int, pieces ...[]byte) {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	h := c.w.Header()
	h.Set("Content-Type", c.choice.Media.String())
	h.Set("Content-Length", strconv.Itoa(size))
	c.w.WriteHeader(code)
	for _, p := range pieces {
		if len(p) > 0 {
			_, _ = c.w.Write(p) // what fails can only be a connection that is gone
		}
	}
}

// plain answers with an object that is in no cache: of the kind given, in its own version.
func (c *call) plain(code int, obj runtime.Object, kind schema.GroupVersionKind) error {
	c.found()
	switch accessor, hasMeta := obj.(metav1.Object); {
	case c.choice.Shape == "" || !hasMeta: // a Status has but one form
	case c.choice.Shape == negotiate.Metadata:
		kind = schema.GroupVersionKind{Group: metav1.GroupName, Version: c.choice.Version, Kind: c.choice.Shape}
		obj = c.kind.Metadata(accessor)
	case c.choice.Shape == negotiate.MetadataList:
		return c.notAList()
	case c.choice.Shape == negotiate.Table:
		return c.plainTable(code, obj)
	}
	c.formed()
	c.auditPlain(obj, kind)
	return c.serialized(func() error {
		body, err := serial.Body(obj, kind, c.choice.Media)
		if err != nil {
			return err
		}
		return c.object(code, body, kind)
	})
}

// unstored makes an entry of an object that was not written: the outcome of a dry run or of a virtual kind.
func unstored(obj kinds.Object) *cache.Entry { return &cache.Entry{Object: obj} }

// unwritten is the outcome of a dry run: obj as whoever reads it from the store would find it.
func (c *call) unwritten(obj kinds.Object) (*cache.Entry, error) {
	obj, err := c.kind.ToStore(obj)
	if err != nil {
		return nil, err
	}
	c.cache.Reread(obj)
	return unstored(obj), nil
}

func indent(body []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return body
	}
	return out.Bytes()
}

// send writes a response whose status is settled. What fails then can only cut the connection.
func (c *call) send(code int, write func(io.Writer) error) error {
	c.w.Header().Set("Content-Type", c.choice.Media.String())
	out := &response{w: c.w, code: code, zip: c.zips()}
	if err := write(out); err != nil {
		if out.started {
			panic(answer.Cut)
		}
		return err
	}
	out.end()
	return nil
}

// sendZipped writes a response that is compressed already. What fails before its first byte is answered as an error.
func (c *call) sendZipped(write func(io.Writer) error) error {
	out := &zipped{call: c}
	if err := write(out); err != nil {
		if out.started {
			panic(answer.Cut)
		}
		return err
	}
	return nil
}

type zipped struct {
	call    *call
	started bool
}

func (z *zipped) Write(p []byte) (int, error) {
	if !z.started {
		z.started = true
		h := z.call.w.Header()
		h.Set("Content-Type", z.call.choice.Media.String())
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z.call.w.WriteHeader(http.StatusOK)
	}
	return z.call.w.Write(p)
}

// zips tells whether what is large is compressed.
func (c *call) zips() bool { return !c.api.config.NoCompression && negotiate.Gzip(c.r) }

// response holds small bodies back, so that they get a Content-Length, and compresses large ones if the client allows.
type response struct {
	w       http.ResponseWriter
	code    int
	zip     bool
	started bool
	held    []byte
	gz      *gzip.Writer
}

func (o *response) Write(p []byte) (int, error) {
	if !o.started {
		if len(o.held)+len(p) < negotiate.GzipFrom {
			o.held = append(o.held, p...)
			return len(p), nil
		}
		if err := o.start(); err != nil {
			return 0, err
		}
	}
	if o.gz != nil {
		return o.gz.Write(p)
	}
	return o.w.Write(p)
}

func (o *response) start() error {
	o.started = true
	if o.zip {
		o.w.Header().Set("Content-Encoding", "gzip")
		o.w.Header().Add("Vary", "Accept-Encoding")
		o.gz = zippers.Get().(*gzip.Writer)
		o.gz.Reset(o.w)
	}
	o.w.WriteHeader(o.code)
	var err error
	if o.gz != nil {
		_, err = o.gz.Write(o.held)
	} else if len(o.held) > 0 {
		_, err = o.w.Write(o.held)
	}
	o.held = nil
	return err
}

func (o *response) end() {
	if !o.started {
		o.w.Header().Set("Content-Length", strconv.Itoa(len(o.held)))
		o.w.WriteHeader(o.code)
		_, _ = o.w.Write(o.held)
		return
	}
	if o.gz != nil {
		_ = o.gz.Close()
		zippers.Put(o.gz)
	}
}

var zippers = sync.Pool{New: func() any {
	gz, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return gz
}}
