package handlers

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// maxBody is what a request may carry, in bytes
// (https://kubernetes.io/docs/reference/using-api/api-concepts/ speaks of etcd's limit of 1.5 MiB; twice that passes here).
const maxBody = 3 << 20

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	if n := r.ContentLength; n > 0 {
		body := make([]byte, n)
		_, err := io.ReadFull(r.Body, body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	case len(body) > maxBody:
		return nil, tooLarge()
	}
	return body, nil
}

func tooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
}

// decodeObject reads the request's body as an object of this door's version, defaulted, in hub form.
func (c *call) decodeObject(validation string) (kinds.Object, error) {
	into := c.version.New()
	if err := c.decodeInto(into, c.gvk, validation); err != nil {
		return nil, err
	}
	if c.version.Default != nil {
		c.version.Default(into)
	}
	return c.toHub(into)
}

// decodeInto reads the request's body as an object of the kind given.
func (c *call) decodeInto(into runtime.Object, want schema.GroupVersionKind, validation string) error {
	media, err := negotiate.Body(c.r, negotiate.All...)
	if err != nil {
		return err
	}
	body, err := readBody(c.r)
	if err != nil {
		return err
	}
	return c.decodeBytes(body, media, into, want, validation)
}

func (c *call) decodeBytes(body []byte, media serial.MediaType, into runtime.Object, want schema.GroupVersionKind, validation string) error {
	strict := validation != metav1.FieldValidationIgnore
	got, gvk, err := c.decoded(body, media, &want, into, strict)
	if err != nil && !(runtime.IsStrictDecodingError(err) && got != nil) {
		return unreadable(err, gvk, want, body)
	}
	if gvk != nil && gvk.GroupVersion() != want.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			gvk.GroupVersion(), want.GroupVersion()))
	}
	if got != into || (gvk != nil && gvk.Kind != want.Kind) {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: it is of another kind",
			gvk.Kind, gvk.Version, want.Kind))
	}
	if err != nil {
		return c.strictness(err, gvk, want, body, validation)
	}
	return nil
}

// strictness turns what strict decoding complained about into an error or into warnings.
func (c *call) strictness(err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte, validation string) error {
	if validation == metav1.FieldValidationStrict {
		return unreadable(err, gvk, want, body)
	}
	c.warnStrict(err)
	return nil
}

func (c *call) warnStrict(err error) {
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, e := range strict.Errors() {
			warning.AddWarning(c.ctx, "", e.Error())
		}
	}
}

// unreadable is the answer to a body that can't be decoded.
func unreadable(err error, gvk *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte) error {
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body)))
}

func summary(body []byte) string {
	const most = 30
	if len(body) > most {
		return fmt.Sprintf("%x ...", body[:most])
	}
	return fmt.Sprintf("%x", body)
}
