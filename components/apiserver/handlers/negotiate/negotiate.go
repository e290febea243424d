// Package negotiate chooses the format of a response from what the client accepts, and reads that of a request.
package negotiate

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
)

// Offer is what an endpoint can answer with.
type Offer struct {
	// Media are the formats of its objects, in the order of preference; the first is the default.
	Media []codec.MediaType
	// Shapes are the kinds of meta.k8s.io that it can show its objects as, in all formats that these have.
	Shapes []string
	// CBOR tells that it is one of the formats of the server.
	CBOR bool
}

func (o Offer) formats() []codec.MediaType { return Formats(o.CBOR) }

// Choice is the outcome.
type Choice struct {
	Media codec.MediaType
	// Shape is the kind of meta.k8s.io to convert to, "" for the object itself; Version is its version.
	Shape, Version string
	Pretty         bool
}

// All are the formats of objects, of a server that has no CBOR.
var All = []codec.MediaType{codec.JSON, codec.YAML, codec.Protobuf}

// Formats are those of objects.
func Formats(cbor bool) []codec.MediaType {
	if cbor {
		return append(slices.Clone(All), codec.CBOR)
	}
	return All
}

// The shapes.
const (
	Table        = "Table"
	Metadata     = "PartialObjectMetadata"
	MetadataList = "PartialObjectMetadataList"
)

// Accept chooses (https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources).
// The error is an API status error (406).
func (o Offer) Accept(r *http.Request) (Choice, error) {
	header := r.Header.Get("Accept")
	if header == "" || header == "*/*" {
		return Choice{Media: o.Media[0], Pretty: Pretty(r)}, nil
	}
	if m, ok := codec.ParseMediaType(header); ok && slices.Contains(o.Media, m) {
		return Choice{Media: m, Pretty: Pretty(r)}, nil
	}
	if m, ok := o.plain(header); ok {
		return Choice{Media: m, Pretty: Pretty(r)}, nil
	}
	formats := o.formats()
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, m := range formats {
			if choice, ok := o.match(&clause, m); ok {
				choice.Pretty = choice.Pretty || Pretty(r)
				return choice, nil
			}
		}
	}
	return Choice{}, notAcceptable(formats, codec.MediaType.String)
}

// plain chooses from a list of media types that has nothing but these, as client-go's, in their order. It finds none
// where the list is to be looked at closely.
func (o Offer) plain(header string) (codec.MediaType, bool) {
	if strings.ContainsAny(header, "; *") || strings.Count(header, ",") > maxPlain {
		return 0, false
	}
	for media := range strings.SplitSeq(header, ",") {
		if m, ok := codec.ParseMediaType(media); ok && slices.Contains(o.Media, m) {
			return m, true
		}
	}
	return 0, false
}

// maxPlain is how many commas there may be in a list of which equals surely keep their order when they are sorted.
const maxPlain = 8

// match tells whether the clause can be served in a format.
func (o Offer) match(clause *goautoneg.Accept, m codec.MediaType) (Choice, bool) {
	if !Covers(clause, m) {
		return Choice{}, false
	}
	params := clause.Params
	if stream := params["stream"]; stream != "" && (stream != "watch" || m == codec.YAML) {
		return Choice{}, false
	}
	if sv := params["sv"]; sv != "" && (sv != "v1" || len(o.Shapes) == 0) {
		return Choice{}, false
	}
	choice := Choice{Media: m, Pretty: params["pretty"] == "1"}
	_, as := params["as"]
	_, g := params["g"]
	if _, v := params["v"]; !as && !g && !v {
		return choice, slices.Contains(o.Media, m)
	}
	choice.Shape, choice.Version = params["as"], params["v"]
	return choice, params["g"] == metav1.GroupName && slices.Contains(o.Shapes, choice.Shape) && hasVersion(choice)
}

// Covers tells whether the clause is of a format, or of any, or of all that begin like it.
func Covers(clause *goautoneg.Accept, m codec.MediaType) bool {
	main, sub, _ := strings.Cut(m.String(), "/")
	switch {
	case clause.Type == main:
		return clause.SubType == sub || clause.SubType == "*"
	case clause.Type == "*":
		return clause.SubType == "*"
	}
	return false
}

// GzipFrom is the size in bytes from which answers are compressed for clients that take them so, as upstream has it.
const GzipFrom = 128<<10 + 1

// Gzip tells whether the client takes answers that are compressed: as upstream reads it, by the first such header
// alone, and also if gzip comes with a weight, which may be none.
func Gzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(part) == "gzip" {
			return true
		}
	}
	return false
}

// hasVersion tells whether the shape exists in that version and format.
func hasVersion(c Choice) bool {
	if c.Shape == Table && (c.Media == codec.Protobuf || c.Media == codec.CBOR) {
		return false
	}
	return c.Version == metav1.SchemeGroupVersion.Version || c.Version == metav1beta1.SchemeGroupVersion.Version
}

// Stream checks that what was chosen can be the format of a watch. The error is an API status error (406).
func (c Choice) Stream(cbor bool) error {
	if c.Media == codec.YAML {
		return NotAcceptable("only the following media types are accepted: " + strings.Join(Streams(cbor), ", "))
	}
	return nil
}

// Streams are the formats of watches.
func Streams(cbor bool) []string {
	out := []string{codec.JSON.String() + ";stream=watch", codec.Protobuf.String() + ";stream=watch"}
	if cbor {
		out = append(out, codec.CBOR.StreamType())
	}
	return out
}

// Named tells whether a header that lists media types names one of those known.
func Named(header string, known ...string) bool {
	for clause := range strings.SplitSeq(header, ",") {
		media, _, _ := strings.Cut(clause, ";")
		if slices.Contains(known, strings.Trim(media, " ")) {
			return true
		}
	}
	return false
}

// Pretty tells whether people will read the answer.
func Pretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v := r.URL.Query().Get("pretty"); v != "" {
			yes, err := strconv.ParseBool(v)
			return err == nil && yes
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}

// Body reads the format of a request's body; the first known when nothing is said. The error is an API status error
// (415).
func Body(r *http.Request, known ...codec.MediaType) (codec.MediaType, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return known[0], nil
	}
	if m, ok := codec.ParseMediaType(header); ok && slices.Contains(known, m) {
		return m, nil
	}
	if media, _, err := mime.ParseMediaType(header); err == nil {
		if m, ok := codec.ParseMediaType(media); ok && slices.Contains(known, m) {
			return m, nil
		}
	}
	return 0, Unsupported(join(known, codec.MediaType.String))
}

func join(media []codec.MediaType, name func(codec.MediaType) string) string {
	out := make([]string, len(media))
	for i, m := range media {
		out[i] = name(m)
	}
	return strings.Join(out, ", ")
}

func notAcceptable(media []codec.MediaType, name func(codec.MediaType) string) error {
	return NotAcceptable("only the following media types are accepted: " + join(media, name))
}

// NotAcceptable is the answer to a request for what can't be had in that form.
func NotAcceptable(message string) error {
	return &failure{http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message}
}

// NotAvailable is the answer to a request for a form in which an endpoint has nothing, with the text that the paths of
// the program's own groups have.
func NotAvailable(known ...string) error {
	err := apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Message = "406: Not Acceptable\n\nAvailable representations: " + strings.Join(known, ", ")
	return err
}

// Unsupported is the answer to a body in a format that the endpoint doesn't read.
func Unsupported(known string) error {
	return &failure{http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: " + known}
}

type failure struct {
	code    int32
	reason  metav1.StatusReason
	message string
}

func (f *failure) Error() string { return f.message }

// Status implements errors.APIStatus.
func (f *failure) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: f.code, Reason: f.reason, Message: f.message}
}
