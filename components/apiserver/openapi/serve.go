package openapi

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
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
	packed []byte
	err    error
}

// types are the content types of a version of OpenAPI.
type types struct {
	proto   string   // that we answer with
	aliases []string // that clients ask for
	toProto func(text []byte) ([]byte, error)
}

var (
	v2Types = types{
		proto:   "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
		aliases: []string{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
		toProto: func(text []byte) ([]byte, error) {
			d, err := openapiv2.ParseDocument(text)
			if err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.Marshal(d)
		},
	}
	v3Types = types{
		proto:   "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
		aliases: []string{"application/com.github.proto-openapi.spec.v3@v1.0+protobuf"},
		toProto: func(text []byte) ([]byte, error) {
			d, err := openapiv3.ParseDocument(text)
			if err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.Marshal(d)
		},
	}
)

// choose reports whether the client wants protobuf; ok is false if it wants nothing that we have. The types have
// characters that no media type may have, so they are compared as they stand.
func (t *types) choose(r *http.Request) (protobuf, ok bool) {
	accept := strings.Join(r.Header["Accept"], ",")
	if accept == "" {
		return false, true
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(strings.TrimSpace(clause), ";")
		switch {
		case media == "application/json", media == "*/*", media == "application/*":
			return false, true
		case media == t.proto, media == t.aliases[0]:
			return true, true
		}
	}
	return false, false
}

// serve answers with a document, which write makes as JSON if it isn't there yet.
func (c *content) serve(w http.ResponseWriter, r *http.Request, key documentKey, hash string, t types, write func() ([]byte, error)) {
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	var ok bool
	if key.proto, ok = t.choose(r); !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	etag := `"` + hash + `"`
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	d := c.document(key, hash)
	d.once.Do(func() { d.packed, d.err = pack(key, t, write) })
	if d.err != nil {
		answer.Error(w, r, apierrors.NewInternalError(d.err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if key.proto {
		w.Header().Set("Content-Type", t.proto)
	}
	body := d.packed
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
	} else {
		var err error
		if body, err = unzip(d.packed); err != nil {
			answer.Error(w, r, apierrors.NewInternalError(err))
			return
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
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
