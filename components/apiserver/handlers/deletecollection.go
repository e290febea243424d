package handlers

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/cache"
)

// deleteCollection deletes what the options choose, each as delete would, and answers with the list of them.
func (c *call) deleteCollection() error {
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
	return c.listed(l)
}
