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

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/quantities"
)

// maxBody is what a request may carry, in bytes (https://kubernetes.io/docs/reference/using-api/api-concepts/ speaks of
// etcd's limit of 1.5 MiB; twice that passes here).
const maxBody = 3 << 20

// readBody reads what the client sends, for as long as the request may take.
func (d *decoder) readBody() ([]byte, error) {
	defer d.steps.Reach("Body read")
	r := d.r
	if r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	defer d.untilDeadline()()
	if n := r.ContentLength; n > 0 && n <= maxPreallocBody {
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

// maxPreallocBody is the largest Content-Length, in bytes, for which the buffer is allocated in advance: for larger
// bodies it grows with what the client sends.
const maxPreallocBody = 64 << 10

// untilDeadline makes reads of the body fail when the time of the request is over: a client that doesn't send what it
// announced must not keep its place among the requests in flight. The returned function ends that.
func (d *decoder) untilDeadline() (end func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(d.ctx, func() {
		defer close(set)
		_ = http.NewResponseController(d.w).SetReadDeadline(time.Unix(1, 0))
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
func (d *decoder) objectOf(body []byte, media codec.MediaType, validation string) (api.Object, error) {
	into := d.Version.New()
	if err := d.decodeBytes(body, media, into, d.GVK, validation); err != nil {
		return nil, err
	}
	if err := d.Check(into); err != nil {
		return nil, d.unreadable(err, &d.GVK, d.GVK, nil)
	}
	if d.Version.Default != nil && d.SubmittedGroupKind == nil {
		d.Version.Default(into)
	}
	return d.ToHub(into)
}

// typedBody reads the body, once it is known to have a form that is understood.
func (d *decoder) typedBody() (body []byte, media codec.MediaType, err error) {
	if media, err = d.bodyMedia(); err != nil {
		return nil, media, err
	}
	body, err = d.readBody()
	return body, media, err
}

func (d *decoder) bodyMedia() (codec.MediaType, error) {
	return negotiate.Body(d.r, d.api.forms.media...)
}

// decodeBytes reads a body as an object of the kind given.
func (d *decoder) decodeBytes(
	body []byte, media codec.MediaType, into runtime.Object, want schema.GroupVersionKind, validation string,
) error {
	strict := validation != metav1.FieldValidationIgnore
	if err := d.checkQuantities(body, media, into, want); err != nil {
		return err
	}
	got, gvk, err := d.decoded(body, media, &want, into, strict)
	switch {
	case err != nil && !(runtime.IsStrictDecodingError(err) && got != nil):
		return d.unreadable(err, gvk, want, body)
	case gvk != nil && gvk.GroupVersion() != want.GroupVersion() && d.isCustom(got):
		if err != nil {
			if err := d.strictness(err, gvk, want, body, validation); err != nil {
				return err
			}
		}
		return mismatch(*gvk, want)
	case got != into && gvk != nil && gvk.Kind == want.Kind && gvk.GroupVersion() != want.GroupVersion() &&
		d.hasForm(*gvk):
		return mismatch(*gvk, want)
	case gvk != nil && gvk.Kind != want.Kind && gvk.GroupVersion() == want.GroupVersion() && d.isCustom(got):
		if err != nil {
			if err := d.strictness(err, gvk, want, body, validation); err != nil {
				return err
			}
		}
		d.misnamed(got, *gvk)
	case (got != into || (gvk != nil && gvk.Kind != want.Kind)) && d.Kind.Custom != nil && d.IsScale():
		return d.unreadableScale()
	case got != into || (gvk != nil && gvk.Kind != want.Kind):
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s",
			gvk.Kind, gvk.Version, want.Kind, d.notConverted(got, *gvk, want)))
	case err != nil:
		return d.strictness(err, gvk, want, body, validation)
	}
	return nil
}

// checkQuantities refuses a body with quantities that can't be computed with.
func (d *decoder) checkQuantities(
	body []byte, media codec.MediaType, into runtime.Object, want schema.GroupVersionKind,
) error {
	if !quantities.Suspicious(body) {
		return nil
	}
	if _, custom := into.(runtime.Unstructured); custom {
		return nil // which has no quantities
	}
	if media == codec.JSON || media == codec.YAML {
		body = quantities.Unescaped(body)
	}
	var name string
	errs := quantities.Check(body, func(bounded []byte) (any, error) {
		fresh := reflect.New(reflect.TypeOf(into).Elem()).Interface().(runtime.Object)
		obj, _, err := d.api.config.Codec.Decode(bounded, media, &want, fresh, false)
		if m, ok := obj.(metav1.Object); ok {
			name = m.GetName()
		}
		return obj, err
	})
	if len(errs) > 0 {
		return apierrors.NewInvalid(want.GroupKind(), name, errs)
	}
	return nil
}

// notConverted says that one kind isn't another, as upstream's conversion does: by the names of Go types.
func (d *decoder) notConverted(got runtime.Object, gvk, want schema.GroupVersionKind) string {
	is := gvk.Version + "." + gvk.Kind
	if t := reflect.TypeOf(got); t != nil && d.Kind.Custom == nil {
		is = t.Elem().String() // what all groups have is of the package of meta/v1
	}
	return fmt.Sprintf("converting (%s) to (%s): unknown conversion", is, d.innerType(want.Kind))
}

func mismatch(gvk, want schema.GroupVersionKind) error {
	return apierrors.NewBadRequest(
		fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			gvk.GroupVersion(), want.GroupVersion()))
}

// hasForm tells whether gvk is another form of what goes through this endpoint: of a scale, all that are known in some
// group.
func (ep *endpoint) hasForm(gvk schema.GroupVersionKind) bool {
	return ep.GVK.Group == gvk.Group || ep.Kind.Custom == nil && ep.IsScale() ||
		ep.GVK.Kind == ep.Kind.Name && ep.Kind.Readable(gvk.GroupVersion()) != nil
}

// strictness turns what strict decoding complained about into an error or into warnings.
func (d *decoder) strictness(
	err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte, validation string,
) error {
	if validation == metav1.FieldValidationStrict {
		return d.unreadable(err, gvk, want, body)
	}
	d.warnStrict(err)
	return nil
}

func (d *decoder) warnStrict(err error) {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			warn(d.ctx, strictComplaints(e.Error())...)
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
func (d *decoder) unreadable(err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte) error {
	if d.Kind.Custom != nil && d.IsScale() {
		return d.unreadableScale()
	}
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			gvk.Kind, gvk.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		want.Kind, err, summary(body)))
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
