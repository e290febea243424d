package handlers

import (
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/serial"
)

// deleteCollection deletes what the options choose, each as delete would, and answers with the list of them.
func (c *call) deleteCollection() error {
	if err := c.allowed(); err != nil {
		return err
	}
	choice, err := c.accept(plainOffer)
	if err != nil {
		return err
	}
	o, predicate, err := c.listOptions()
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	l, err := c.cache.List(c.ctx, cache.ListOptions{
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return err
	}
	for _, e := range l.Entries {
		one := *c
		one.name = e.Object.GetName()
		own := options.DeepCopy()
		if _, _, err := one.remove(own); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	f := c.format(choice.Media, cache.Whole)
	out := serial.List{Kind: c.version.WithKind(c.kind.ListKind()), Item: f.Kind, Meta: l.Meta(), Items: l.Bodies(f)}
	return c.send(http.StatusOK, choice.Media, func(w io.Writer) error { return serial.WriteList(w, choice.Media, out) })
}
