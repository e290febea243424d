package handlers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

var (
	objectOffer = negotiate.Offer{Media: negotiate.All, Shapes: []string{"Table", "PartialObjectMetadata"}}
	listOffer   = negotiate.Offer{Media: negotiate.All, Shapes: []string{"Table", "PartialObjectMetadataList"}}
	watchOffer  = negotiate.Offer{Media: []serial.MediaType{serial.JSON, serial.Protobuf}, Shapes: []string{"Table", "PartialObjectMetadata"}}
	plainOffer  = negotiate.Offer{Media: negotiate.All}
)

// entry answers with one stored object.
func (c *call) entry(code int, e *cache.Entry) error {
	choice, err := c.accept(objectOffer)
	if err != nil {
		return err
	}
	switch choice.Shape {
	case "Table":
		return c.table(code, choice, &cache.List{Revision: e.Revision, Entries: []*cache.Entry{e}}, e.Object.GetResourceVersion())
	case "PartialObjectMetadata":
		return c.body(code, choice, c.format(choice.Media, cache.Metadata), e)
	}
	return c.body(code, choice, c.format(choice.Media, cache.Whole), e)
}

func (c *call) body(code int, choice negotiate.Choice, f *cache.Format, e *cache.Entry) error {
	body, err := e.Encoded(f)
	if err != nil {
		return err
	}
	if choice.Pretty && choice.Media == serial.JSON {
		body = indent(body)
	}
	return c.send(code, choice.Media, func(w io.Writer) error {
		return serial.WriteObject(w, choice.Media, f.Kind, body)
	})
}

// plain answers with an object that is in no cache: of the kind given, in its own version.
func (c *call) plain(code int, obj runtime.Object, kind schema.GroupVersionKind) error {
	choice, err := plainOffer.Accept(c.r)
	if err != nil {
		return err
	}
	body, err := serial.Body(obj, kind, choice.Media)
	if err != nil {
		return err
	}
	if choice.Pretty && choice.Media == serial.JSON {
		body = indent(body)
	}
	return c.send(code, choice.Media, func(w io.Writer) error {
		return serial.WriteObject(w, choice.Media, kind, body)
	})
}

// unstored makes an entry of an object that was not written: the outcome of a dry run or of a virtual kind.
func unstored(obj kinds.Object) *cache.Entry { return &cache.Entry{Object: obj} }

func indent(body []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return body
	}
	return out.Bytes()
}

// send writes a response whose status is settled. What fails then can only cut the connection.
func (c *call) send(code int, media serial.MediaType, write func(io.Writer) error) error {
	c.w.Header().Set("Content-Type", media.String())
	out := &response{w: c.w, code: code, zip: code == http.StatusOK && c.r.Method == http.MethodGet && acceptsGzip(c.r)}
	if err := write(out); err != nil {
		if out.started {
			panic(http.ErrAbortHandler)
		}
		return err
	}
	out.end()
	return nil
}

// sendZipped writes a response that is compressed already.
func (c *call) sendZipped(media serial.MediaType, write func(io.Writer) error) error {
	h := c.w.Header()
	h.Set("Content-Type", media.String())
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	c.w.WriteHeader(http.StatusOK)
	if err := write(c.w); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func acceptsGzip(r *http.Request) bool {
	for _, header := range r.Header["Accept-Encoding"] {
		for part := range strings.SplitSeq(header, ",") {
			if coding, _, _ := strings.Cut(strings.TrimSpace(part), ";"); coding == "gzip" {
				return true
			}
		}
	}
	return false
}

// zipFrom is the size from which a response is compressed, as upstream has it.
const zipFrom = 128 << 10

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
		if len(o.held)+len(p) < zipFrom {
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
