// Package negotiate chooses the format of a response from what the client accepts, and reads that of a request.
package negotiate

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/serial"
)

// Offer is what an endpoint can answer with.
type Offer struct {
	// Media are the formats, in the order of preference; the first is the default.
	Media []serial.MediaType
	// Shapes are the conversions that it knows (Table, PartialObjectMetadata, ...).
	Shapes []string
}

// Choice is the outcome.
type Choice struct {
	Media serial.MediaType
	// Shape is the kind of meta.k8s.io/v1 to convert to, "" for the object itself.
	Shape  string
	Pretty bool
}

// All are the formats of objects.
var All = []serial.MediaType{serial.JSON, serial.YAML, serial.Protobuf}

// Accept chooses. The error is an API status error (406).
func (o Offer) Accept(r *http.Request) (Choice, error) {
	header := r.Header["Accept"]
	if len(header) == 0 || (len(header) == 1 && (header[0] == "" || header[0] == "*/*")) {
		return Choice{Media: o.Media[0], Pretty: pretty(r, "")}, nil
	}
	var best *clause
	for _, c := range parse(strings.Join(header, ",")) {
		if o.match(&c) && (best == nil || c.quality > best.quality) {
			best = &c
		}
	}
	if best == nil {
		return Choice{}, notAcceptable(o.Media)
	}
	media, _ := serial.ParseMediaType(best.media)
	out := Choice{Media: media, Shape: best.params["as"]}
	out.Pretty = pretty(r, best.params["pretty"])
	return out, nil
}

// match tells whether the clause can be served, and replaces its wildcard by a format.
func (o Offer) match(c *clause) bool {
	if c.quality <= 0 {
		return false
	}
	if as := c.params["as"]; as != "" {
		known := false
		for _, s := range o.Shapes {
			known = known || s == as
		}
		if !known || c.params["g"] != metav1.GroupName || c.params["v"] != "v1" {
			return false
		}
	}
	for _, m := range o.Media {
		main, _, _ := strings.Cut(m.String(), "/")
		if c.media == m.String() || c.media == "*/*" || c.media == main+"/*" {
			// A Table has no protobuf form that clients read.
			if c.params["as"] == "Table" && m == serial.Protobuf {
				continue
			}
			c.media = m.String()
			return true
		}
	}
	return false
}

type clause struct {
	media   string
	params  map[string]string
	quality float64
}

func parse(header string) []clause {
	var out []clause
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		c := clause{media: part, quality: 1}
		if strings.Contains(part, ";") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			c.media, c.params = media, params
			if q, ok := params["q"]; ok {
				if v, err := strconv.ParseFloat(q, 64); err == nil {
					c.quality = v
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// pretty tells whether people will read the answer.
func pretty(r *http.Request, param string) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v, ok := r.URL.Query()["pretty"]; ok && len(v) > 0 {
			return isTrue(v[0])
		}
	}
	if param != "" {
		return isTrue(param)
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func isTrue(s string) bool {
	v, err := strconv.ParseBool(s)
	return err == nil && v
}

// Body reads the format of a request's body; JSON when nothing is said. The error is an API status error (415).
func Body(r *http.Request, known ...serial.MediaType) (serial.MediaType, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return known[0], nil
	}
	media := header
	if strings.Contains(header, ";") {
		var err error
		if media, _, err = mime.ParseMediaType(header); err != nil {
			return 0, Unsupported(join(known))
		}
	}
	for _, m := range known {
		if m.String() == media {
			return m, nil
		}
	}
	return 0, Unsupported(join(known))
}

func join(media []serial.MediaType) string {
	out := make([]string, len(media))
	for i, m := range media {
		out[i] = m.String()
	}
	return strings.Join(out, ", ")
}

func notAcceptable(media []serial.MediaType) error {
	return &failure{http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: " + join(media)}
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
