package handlers

import (
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if err := c.convertible(); err != nil {
		if isFromStore(1, predicate) { // as upstream does that page by page
			return err
		}
		return c.unready(err)
	}
	l, err := c.cache.List(c.ctx, cache.ListOptions{
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return c.unready(err)
	}
	if err := c.removeAll(l.Entries, options); err != nil {
		return err
	}
	return c.listed(l)
}

// removeAll deletes objects, several at a time if that is configured, until one can't be.
func (c *call) removeAll(entries []*cache.Entry, options *metav1.DeleteOptions) error {
	group, ctx := errgroup.WithContext(c.ctx)
	group.SetLimit(max(c.api.config.DeleteWorkers, 1))
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			one := *c
			one.name = e.Object.GetName()
			if _, _, err := one.remove(options.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}
