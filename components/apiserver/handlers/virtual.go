package handlers

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// answered serves a kind of which nothing is stored: what is created is filled in and given back.
func (c *call) answered(obj api.Object, o *metav1.CreateOptions) error {
	out, err := c.writer().CreateVirtual(c.ctx, obj, o, managerName(c.r, o.FieldManager))
	if err != nil {
		return err
	}
	if isNil(out) {
		return c.out.success(http.StatusCreated, nil)
	}
	shown, err := c.FromHub(out)
	if err != nil {
		return err
	}
	return c.out.plain(http.StatusCreated, shown, c.GVK)
}

// posted serves a subresource that takes an object and does something with it.
func (c *call) posted() error {
	sent, media, err := c.in.typedBody()
	if err != nil {
		return err
	}
	o, err := c.createOptions()
	if err != nil {
		return err
	}
	body, err := c.NewBody()
	if err != nil {
		return err
	}
	if err := c.in.decodeBytes(sent, media, body, c.GVK, o.FieldValidation); err != nil {
		return err
	}
	if t, ok := body.(*authenticationv1.TokenRequest); ok && t.Spec.ExpirationSeconds == nil {
		t.Spec.ExpirationSeconds = new(int64(tokenSeconds))
	}
	c.in.auditBody(body, c.GVK)
	if _, ok := body.(*policyv1.Eviction); ok { // others mean what they say of the system's metadata
		registry.WipeSystemFields(body)
	}
	admit, err := c.writer().AdmitAction(c.ctx, body, o, managerName(c.r, o.FieldManager))
	if err != nil {
		return err
	}
	out, err := c.post(c.ctx, Posted{
		Namespace: c.Namespace, Name: c.Name, Body: body, DryRun: registry.IsDryRun(o.DryRun), Admit: admit,
	})
	if err != nil {
		return err
	}
	if isNil(out) {
		return c.out.success(http.StatusCreated, nil)
	}
	if status, ok := out.(*metav1.Status); ok {
		return c.out.plain(int(statusCode(status)), status, statusKind)
	}
	return c.out.plain(http.StatusCreated, out, c.GVK)
}

// tokenSeconds is the lifetime of tokens whose request doesn't set one.
const tokenSeconds = 60 * 60
