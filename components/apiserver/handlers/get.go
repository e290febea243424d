package handlers

import (
	"fmt"
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
	if c.kind.Read != nil {
		return c.readOne()
	}
	if err := c.hasKey(); err != nil {
		return err
	}
	c.steps.Reach("About to Get from storage")
	e, err := c.cache.Get(c.ctx, c.key(), o.ResourceVersion)
	if err != nil {
		return c.missing(err)
	}
	if o.ResourceVersion == "" {
		e = c.anew(e)
	}
	return c.stored(http.StatusOK, e)
}

// missing makes an error that nothing was found speak of the resource as it was asked for: a cache knows but one name.
func (c *call) missing(err error) error {
	if apierrors.IsNotFound(err) && c.resource.Group != c.kind.Hub.Group {
		return apierrors.NewNotFound(c.resource, c.name)
	}
	return err
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
func (c *call) stored(code int, e *cache.Entry) error {
	if c.isScale() {
		e, err := c.toWork(e)
		if err != nil {
			return err
		}
		if err := c.readable(e.Object); err != nil {
			return err
		}
		if s := c.sub.Scale; s.Has != nil && !s.Has(e.Object) {
			return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", s.Field))
		}
		return c.plain(code, c.scaleOf(e.Object), c.gvk)
	}
	return c.entry(code, e)
}
