package handlers

import (
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
)

// get answers with one object, or with a view of it.
func (c *call) get() error {
	o, err := readQuery(c, func(q *url.Values, o *metav1.GetOptions) error {
		return metav1.Convert_url_Values_To_v1_GetOptions(q, o, nil)
	})
	if err != nil {
		return err
	}
	if err := c.exported(); err != nil {
		return err
	}
	if c.Kind.Read != nil {
		e, err := c.Reader(&c.Request).ReadOne(c.ctx)
		if err != nil {
			return err
		}
		return c.out.entry(http.StatusOK, e)
	}
	if err := c.CheckName(); err != nil {
		return err
	}
	c.steps.Reach("About to Get from storage")
	e, err := c.Reader(&c.Request).Get(c.ctx, o.ResourceVersion)
	if err != nil {
		return err
	}
	return c.out.stored(http.StatusOK, e)
}

// exported refuses a parameter of old, which would have left out what belongs to one cluster.
func (c *call) exported() error {
	if !strings.Contains(c.r.URL.RawQuery, "export") {
		return nil
	}
	if !isSet(c.r.URL.Query(), "export") {
		return nil
	}
	return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
}

// stored answers with what this endpoint shows of a stored object.
func (o *responder) stored(code int, e *cache.Entry) error {
	if o.IsScale() {
		scale, err := o.Scale(e)
		if err != nil {
			return err
		}
		return o.plain(code, scale, o.GVK)
	}
	return o.entry(code, e)
}
