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
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/latency"
)

// entry answers with one stored object.
func (o *responder) entry(code int, e *cache.Entry) error {
	o.found()
	switch o.choice.Shape {
	case negotiate.Table:
		return o.table(code, &cache.List{Revision: e.Revision, Entries: []*cache.Entry{e}},
			e.Object.GetResourceVersion())
	case negotiate.Metadata:
		return o.body(code, o.metadata(), e)
	case negotiate.MetadataList:
		return o.notAList()
	}
	return o.body(code, o.Format(o.choice.Media, cache.Whole), e)
}

// metadata is the format of objects of which only the metadata is wanted.
func (o *responder) metadata() *cache.Format {
	return o.Format(o.choice.Media, metadataShape(o.choice))
}

func metadataShape(choice negotiate.Choice) cache.Shape {
	if choice.Version == metav1beta1.SchemeGroupVersion.Version {
		return cache.MetadataV1beta1
	}
	return cache.Metadata
}

func (o *responder) notAList() error {
	if o.Kind.Custom != nil && !o.IsScale() {
		return errors.New("content is not a list")
	}
	return negotiate.NotAcceptable(fmt.Sprintf(
		"you requested PartialObjectMetadataList, but the requested object is not a list (*%s)",
		o.innerType(o.GVK.Kind)))
}

func (o *responder) isAList() error {
	return negotiate.NotAcceptable(fmt.Sprintf(
		"you requested PartialObjectMetadata, but the requested object is a list (*%s)",
		o.innerType(o.Kind.ListKind())))
}

// innerType is what upstream calls a kind inside, which it tells in some messages.
func (ep *endpoint) innerType(kind string) string {
	if ep.Kind.Custom != nil && !ep.IsScale() {
		if kind == ep.Kind.ListKind() {
			return "unstructured.UnstructuredList"
		}
		return "unstructured.Unstructured"
	}
	if ep.Kind.Custom != nil {
		return ep.GVK.Version + "." + kind
	}
	return innerPackage(ep.GVK.Group) + "." + kind
}

func innerPackage(group string) string {
	switch name, _, _ := strings.Cut(group, "."); name {
	case "", "events":
		return "core"
	default:
		return name
	}
}

func (o *responder) body(code int, f *cache.Format, e *cache.Entry) error {
	o.formed()
	o.auditEntry(f, e)
	return o.serialized(func() error {
		body, err := e.EncodedOnce(f)
		if err != nil {
			return err
		}
		return o.object(code, body, f.Kind)
	})
}

// found is told when there is something to answer with, and formed when it has the form that it is to be sent in.
func (o *responder) found() {
	o.steps.Reach("About to write a response")
	o.answering = o.times.Begin()
}

func (o *responder) formed() { o.times.Add(latency.Transform, o.answering) }

// object answers with a body of the kind given.
func (o *responder) object(code int, body []byte, kind schema.GroupVersionKind) error {
	if o.choice.Pretty && o.choice.Media == codec.JSON {
		body = indent(body)
	}
	before, after, ok := codec.Around(o.choice.Media, kind, len(body))
	if ok && len(before)+len(body)+len(after) < negotiate.GzipFrom {
		o.pieces(code, before, body, after)
		return nil
	}
	return o.send(code, func(w io.Writer) error { return codec.WriteObject(w, o.choice.Media, kind, body) })
}

// pieces answers with what is too small to be compressed.
func (o *responder) pieces(code int, pieces ...[]byte) {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	h := o.w.Header()
	h.Set("Content-Type", o.choice.Media.String())
	h.Set("Content-Length", strconv.Itoa(size))
	o.w.WriteHeader(code)
	for _, p := range pieces {
		if len(p) > 0 {
			_, _ = o.w.Write(p) // what fails can only be a connection that is gone
		}
	}
}

// plain answers with an object that is in no cache: of the kind given, in its own version.
func (o *responder) plain(code int, obj runtime.Object, kind schema.GroupVersionKind) error {
	o.found()
	switch accessor, hasMeta := obj.(metav1.Object); {
	case o.choice.Shape == "" || !hasMeta: // a Status has but one form
	case o.choice.Shape == negotiate.Metadata:
		kind = schema.GroupVersionKind{Group: metav1.GroupName, Version: o.choice.Version, Kind: o.choice.Shape}
		obj = o.Kind.Metadata(accessor)
	case o.choice.Shape == negotiate.MetadataList:
		return o.notAList()
	case o.choice.Shape == negotiate.Table:
		return o.plainTable(code, obj)
	}
	o.formed()
	o.auditPlain(obj, kind)
	return o.serialized(func() error {
		body, err := codec.Body(obj, kind, o.choice.Media)
		if err != nil {
			return err
		}
		return o.object(code, body, kind)
	})
}

func indent(body []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return body
	}
	return out.Bytes()
}

// send writes a response whose status is settled. What fails then can only cut the connection.
func (o *responder) send(code int, write func(io.Writer) error) error {
	o.w.Header().Set("Content-Type", o.choice.Media.String())
	out := &response{w: o.w, code: code, zip: o.zips()}
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
func (o *responder) sendZipped(write func(io.Writer) error) error {
	out := &zipped{o: o}
	if err := write(out); err != nil {
		if out.started {
			panic(answer.Cut)
		}
		return err
	}
	return nil
}

type zipped struct {
	o       *responder
	started bool
}

func (z *zipped) Write(p []byte) (int, error) {
	if !z.started {
		z.started = true
		h := z.o.w.Header()
		h.Set("Content-Type", z.o.choice.Media.String())
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z.o.w.WriteHeader(http.StatusOK)
	}
	return z.o.w.Write(p)
}

// zips tells whether what is large is compressed.
func (o *responder) zips() bool { return !o.api.config.NoCompression && negotiate.Gzip(o.r) }

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
