package handlers

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// answered serves a kind of which nothing is stored: what is created is filled in and given back.
func (c *call) answered(obj kinds.Object, o *metav1.CreateOptions) error {
	c.dropDuplicateOwners(obj, duplicateOwners)
	obj = c.track(nil, obj, o.FieldManager)
	a := attributes{operation: admission.Create, options: o, dryRun: isDryRun(o.DryRun)}
	if err := c.mutate(a, obj, nil); err != nil {
		return err
	}
	c.dropDuplicateOwners(obj, duplicateOwnersAdmitted)
	out, err := c.kind.Answer(c.ctx, obj, kinds.Asked{
		DryRun: a.dryRun, Admit: func() error { return c.validate(c.ctx, a, obj, nil) },
	})
	if err != nil {
		return err
	}
	if isNil(out) {
		return c.success(http.StatusCreated, nil)
	}
	shown, err := c.fromHub(out)
	if err != nil {
		return err
	}
	return c.plain(http.StatusCreated, shown, c.gvk)
}

// readOne answers with an object as it is now, of a kind of which nothing is stored.
func (c *call) readOne() error {
	for _, obj := range c.kind.Read(c.ctx, c.name) {
		return c.entry(http.StatusOK, unstored(obj))
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: c.resource.Group, Resource: c.kind.Singular}, c.name)
}

// readAll answers with all objects of such a kind that the predicate chooses.
func (c *call) readAll(p cache.Predicate) error {
	l := &cache.List{}
	for _, obj := range c.kind.Read(c.ctx, "") {
		if (p.Label == nil || p.Label.Matches(labels.Set(obj.GetLabels()))) && (p.Field == nil || p.Field.Matches(c.kind.FieldSet(obj))) {
			l.Entries = append(l.Entries, unstored(obj))
		}
	}
	return c.listed(l)
}

// posted serves a subresource that takes an object and does something with it.
func (c *call) posted() error {
	sent, media, err := c.typedBody()
	if err != nil {
		return err
	}
	o, err := c.createOptions()
	if err != nil {
		return err
	}
	body, err := c.api.newBody(c.gvk)
	if err != nil {
		return err
	}
	if err := c.decodeBytes(sent, media, body, c.gvk, o.FieldValidation); err != nil {
		return err
	}
	if t, ok := body.(*authenticationv1.TokenRequest); ok && t.Spec.ExpirationSeconds == nil {
		t.Spec.ExpirationSeconds = new(int64(tokenSeconds))
	}
	c.auditBody(body, c.gvk)
	if _, ok := body.(*policyv1.Eviction); ok { // others mean what they say of the system's metadata
		wipe(body)
	}
	if err := c.inNamespace(body); err != nil { // whether its name is that of the URL is for the subresource to say
		return err
	}
	c.dropDuplicateOwners(body, duplicateOwners)
	if err := c.trackPosted(body, o.FieldManager); err != nil {
		return err
	}
	a := attributes{operation: admission.Create, options: o, dryRun: isDryRun(o.DryRun)}
	if err := c.mutate(a, body, nil); err != nil {
		return err
	}
	c.dropDuplicateOwners(body, duplicateOwnersAdmitted)
	out, err := c.post(c.ctx, Posted{
		Namespace: c.namespace, Name: c.name, Body: body, DryRun: a.dryRun,
		Admit: func(body runtime.Object) error { return c.validate(c.ctx, a, body, nil) },
	})
	if err != nil {
		return err
	}
	if isNil(out) {
		return c.success(http.StatusCreated, nil)
	}
	if status, ok := out.(*metav1.Status); ok {
		return c.plain(int(statusCode(status)), status, statusKind)
	}
	return c.plain(http.StatusCreated, out, c.gvk)
}

// tokenSeconds is how long tokens live that nobody says it of.
const tokenSeconds = 60 * 60

// trackPosted books what is posted on its manager: admission sees it, and the answer to a request for a token, which is the request
// filled in.
func (c *call) trackPosted(body kinds.Object, manager string) error {
	empty, err := c.api.newBody(c.gvk)
	if err != nil {
		return err
	}
	for _, obj := range []kinds.Object{empty, body} {
		obj.GetObjectKind().SetGroupVersionKind(c.gvk)
	}
	c.track(empty, body, manager)
	return nil
}

// newBody makes an empty object of a kind that is the body of a subresource.
func (a *API) newBody(gvk schema.GroupVersionKind) (kinds.Object, error) {
	obj, err := a.config.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return obj.(kinds.Object), nil
}
