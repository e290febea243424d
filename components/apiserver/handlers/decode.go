package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// maxBody is what a request may carry, in bytes
// (https://kubernetes.io/docs/reference/using-api/api-concepts/ speaks of etcd's limit of 1.5 MiB; twice that passes here).
const maxBody = 3 << 20

// readBody reads what the client sends, for as long as the request may take.
func (c *call) readBody() ([]byte, error) {
	defer c.steps.Reach("Body read")
	r := c.r
	if r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	defer c.untilDeadline()()
	if n := r.ContentLength; n > 0 && n <= believedBody {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, err
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBody:
		return nil, tooLarge()
	}
	return body, nil
}

// believedBody is the largest body for which there is room before it comes, in bytes: more grows with what the client does send.
const believedBody = 64 << 10

// untilDeadline makes reads of the body fail when the time of the request is over: a client that doesn't send what it
// announced must not keep its place among the requests in flight. The returned function ends that.
func (c *call) untilDeadline() (end func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(set)
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-set
		}
	}
}

func tooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
}

// objectOf reads a body as an object of this endpoint's version, defaulted, in hub form.
func (c *call) objectOf(body []byte, media serial.MediaType, validation string) (kinds.Object, error) {
	into := c.version.New()
	if err := c.decodeBytes(body, media, into, c.gvk, validation); err != nil {
		return nil, err
	}
	if err := c.check(into); err != nil {
		return nil, c.unreadable(err, &c.gvk, c.gvk, nil)
	}
	if c.version.Default != nil && c.alien == nil {
		c.version.Default(into)
	}
	return c.toHub(into)
}

// typedBody reads the body, once it is known to have a form that is understood.
func (c *call) typedBody() (body []byte, media serial.MediaType, err error) {
	if media, err = c.bodyMedia(); err != nil {
		return nil, media, err
	}
	body, err = c.readBody()
	return body, media, err
}

func (c *call) bodyMedia() (serial.MediaType, error) {
	return negotiate.Body(c.r, c.api.forms.media...)
}

// decodeBytes reads a body as an object of the kind given.
func (c *call) decodeBytes(body []byte, media serial.MediaType, into runtime.Object, want schema.GroupVersionKind, validation string) error {
	strict := validation != metav1.FieldValidationIgnore
	got, gvk, err := c.decoded(body, media, &want, into, strict)
	switch {
	case err != nil && !(runtime.IsStrictDecodingError(err) && got != nil):
		return c.unreadable(err, gvk, want, body)
	case gvk != nil && gvk.GroupVersion() != want.GroupVersion() && c.isCustom(got):
		if err != nil {
			if err := c.strictness(err, gvk, want, body, validation); err != nil {
				return err
			}
		}
		return mismatch(*gvk, want)
	case got != into && gvk != nil && gvk.Kind == want.Kind && gvk.GroupVersion() != want.GroupVersion() && c.hasForm(*gvk):
		return mismatch(*gvk, want)
	case gvk != nil && gvk.Kind != want.Kind && gvk.GroupVersion() == want.GroupVersion() && c.isCustom(got):
		if err != nil {
			if err := c.strictness(err, gvk, want, body, validation); err != nil {
				return err
			}
		}
		c.misnamed(got, *gvk)
	case (got != into || (gvk != nil && gvk.Kind != want.Kind)) && c.kind.Custom != nil && c.isScale():
		return c.unreadableScale()
	case got != into || (gvk != nil && gvk.Kind != want.Kind):
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", gvk.Kind, gvk.Version, want.Kind, c.notConverted(got, *gvk, want)))
	case err != nil:
		return c.strictness(err, gvk, want, body, validation)
	}
	return nil
}

// notConverted says that one kind isn't another, as upstream's conversion does: by the names of Go types.
func (c *call) notConverted(got runtime.Object, gvk, want schema.GroupVersionKind) string {
	is := gvk.Version + "." + gvk.Kind
	if t := reflect.TypeOf(got); t != nil && c.kind.Custom == nil {
		is = t.Elem().String() // what all groups have is of the package of meta/v1
	}
	return fmt.Sprintf("converting (%s) to (%s): unknown conversion", is, c.innerType(want.Kind))
}

func mismatch(gvk, want schema.GroupVersionKind) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
		gvk.GroupVersion(), want.GroupVersion()))
}

// hasForm tells whether gvk is another form of what goes through this endpoint: of a scale, all that are known in some group.
func (d *endpoint) hasForm(gvk schema.GroupVersionKind) bool {
	return d.gvk.Group == gvk.Group || d.kind.Custom == nil && d.isScale() || d.gvk.Kind == d.kind.Name && d.kind.Readable(gvk.GroupVersion()) != nil
}

// strictness turns what strict decoding complained about into an error or into warnings.
func (c *call) strictness(err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte, validation string) error {
	if validation == metav1.FieldValidationStrict {
		return c.unreadable(err, gvk, want, body)
	}
	c.warnStrict(err)
	return nil
}

func (c *call) warnStrict(err error) {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			c.warn(strictComplaints(e.Error()))
		}
	}
}

// strictComplaints takes apart what a YAML decoder puts into one error: a line for each duplicate key.
func strictComplaints(text string) []string {
	_, lines, ok := strings.Cut(text, "yaml: unmarshal errors:\n")
	if !ok {
		return []string{text}
	}
	out := strings.Split(lines, "\n")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// unreadable is the answer to a body that can't be decoded.
func (c *call) unreadable(err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte) error {
	if c.kind.Custom != nil && c.isScale() {
		return c.unreadableScale()
	}
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body)))
}

// summary shows the beginning of a body: as text if it looks like JSON.
func summary(body []byte) string {
	const most = 30
	if len(body) == 0 {
		return "<empty>"
	}
	format, more := "%x", ""
	if body[0] == '{' {
		format = "%s"
	}
	if len(body) > most {
		body, more = body[:most], " ..."
	}
	return fmt.Sprintf(format, body) + more
}
