package handlers

import (
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// delete removes an object, or begins to.
func (c *call) delete() error {
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	c.steps.Reach("About to delete object from database")
	w := c.writer()
	e, removed, err := w.Delete(c.ctx, o)
	if err != nil {
		return w.NotFound(err)
	}
	c.steps.Reach("Object deleted from database")
	if removed && !c.Kind.Strategy.ReturnDeleted {
		return c.out.success(http.StatusOK, &metav1.StatusDetails{
			Name: e.Object.GetName(), Group: c.Resource.Group, Kind: c.Resource.Resource, UID: e.Object.GetUID(),
		})
	}
	code := http.StatusOK
	if !removed && o.OrphanDependents != nil && !*o.OrphanDependents {
		code = http.StatusAccepted
	}
	return c.out.entry(code, e)
}

// deleteOptions come in the body, or else in the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.in.readBody()
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(body) == 0 {
		o, err = readQuery(c, func(q *url.Values, o *metav1.DeleteOptions) error {
			return metav1.Convert_url_Values_To_v1_DeleteOptions(q, o, nil)
		})
	} else {
		err = c.decodeDeleteOptions(body, o)
	}
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}
	// It is of a feature that is off (AllowUnsafeMalformedObjectDeletion, alpha): as with upstream, it is not there.
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(o)); err != nil {
		return nil, err
	}
	if text := c.Kind.Strategy.OrphanWarning; text != "" && o.PropagationPolicy == nil && o.OrphanDependents == nil {
		warn(c.ctx, text)
	}
	return o, nil
}

// internalDeleteOptions is how upstream's audit events call the options, whatever the client called them.
var internalDeleteOptions = schema.GroupVersionKind{Group: metav1.GroupName, Version: runtime.APIVersionInternal,
	Kind: "DeleteOptions"}

// decodeDeleteOptions takes them in any group and version: clients send those of the object, custom ones too.
func (c *call) decodeDeleteOptions(body []byte, o *metav1.DeleteOptions) error {
	media, err := negotiate.Body(c.r, c.api.forms.media...)
	if err != nil {
		return err
	}
	info, _ := runtime.SerializerInfoForMediaType(c.api.options.SupportedMediaTypes(), media.String())
	want := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "DeleteOptions"}
	decoder := c.api.options.DecoderToVersion(info.Serializer, want.GroupVersion())
	if got, _, err := decoder.Decode(body, &want, o); err != nil {
		return apierrors.NewBadRequest(err.Error())
	} else if got != o {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	c.in.auditBody(o, internalDeleteOptions)
	return nil
}
