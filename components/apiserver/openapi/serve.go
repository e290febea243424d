package openapi

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// documentKey is a document in one form.
type documentKey struct {
	path  string
	proto bool
}

// document is made once for each content, and kept compressed.
type document struct {
	hash   string
	once   sync.Once
	made   time.Time
	packed []byte
	err    error
}

// types are the content types of a version of OpenAPI.
type types struct {
	strict  bool   // an Accept that names no media type is refused
	proto   string // that we answer with
	alias   string // that clients ask for
	toProto func(text []byte) ([]byte, error)
}

var (
	v2Types = types{
		strict: true,
		proto:  "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
		alias:  "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
		toProto: func(text []byte) ([]byte, error) {
			d, err := openapiv2.ParseDocument(text)
			if err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.Marshal(d)
		},
	}
	v3Types = types{
		proto: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
		alias: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
		toProto: func(text []byte) ([]byte, error) {
			d, err := openapiv3.ParseDocument(text)
			if err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.Marshal(d)
		},
	}
)

// form is what a client wants.
type form int

const (
	nothing form = iota // what we don't have
	silence             // no media type at all
	text
	protobuf
)

// choose reads what the client accepts, the best first.
func (t *types) choose(r *http.Request) form {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return text
	}
	clauses := goautoneg.ParseAccept(accept)
	if len(clauses) == 0 && !t.strict {
		return silence
	}
	for _, clause := range clauses {
		switch media := clause.Type + "/" + clause.SubType; {
		case media == "application/json", clause.SubType == "*" && (clause.Type == "application" || clause.Type == "*"):
			return text
		case media == t.proto, media == t.alias:
			return protobuf
		}
	}
	return nothing
}

// accepted chooses the form of the answer and says it in the header; it answers itself, and returns false, if there is
// none.
func (t *types) accepted(w http.ResponseWriter, r *http.Request) (form, bool) {
	w.Header().Add("Vary", "Accept")
	f := t.choose(r)
	switch f {
	case silence:
		return f, false
	case nothing:
		w.WriteHeader(http.StatusNotAcceptable)
		return f, false
	case protobuf:
		w.Header().Set("Content-Type", t.proto)
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	return f, true
}

// serve answers with a document, which write makes as JSON if it isn't there yet. The header tells its type already.
func (c *content) serve(w http.ResponseWriter, r *http.Request, key documentKey, hash string, t types,
	write func() ([]byte, error)) {
	w.Header().Set("ETag", strconv.Quote(hash))
	d := c.document(key, hash)
	d.once.Do(func() {
		d.packed, d.err = pack(key, t, write)
		d.made = time.Now()
	})
	body, err := d.packed, d.err
	if err == nil && w.Header().Get("Content-Encoding") == "" {
		body, err = unzip(d.packed)
	}
	if err != nil {
		w.Header().Del("Content-Encoding")
		answer.Error(w, r, apierrors.NewInternalError(err))
		return
	}
	http.ServeContent(w, r, "", d.made, bytes.NewReader(body))
}

// document is the newest of a key. What others say may have changed since it was made.
func (c *content) document(key documentKey, hash string) *document {
	made, _ := c.made.LoadOrStore(key, &document{hash: hash})
	d := made.(*document)
	if d.hash != hash {
		d = &document{hash: hash}
		c.made.Store(key, d)
	}
	return d
}

func pack(key documentKey, t types, write func() ([]byte, error)) ([]byte, error) {
	text, err := write()
	if err == nil && key.proto {
		text, err = t.toProto(text)
	}
	if err != nil {
		return nil, err
	}
	return zip(text), nil
}

func shorten(s string) string { return fmt.Sprintf("%X", sha512.Sum512([]byte(s))) }
