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
	l, err := c.chosen(cache.ListOptions{
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

// deletePage is how many objects are listed at a time. To ask for pages has a meaning: a resource version that comes without a match is
// then the only one that will do.
const deletePage = 10000

// chosen lists what is to be deleted: all, unless the client asks for a page.
func (c *call) chosen(o cache.ListOptions) (*cache.List, error) {
	if o.Limit != 0 {
		return c.cache.List(c.ctx, o)
	}
	o.Limit = deletePage
	out, err := c.cache.List(c.ctx, o)
	if err != nil {
		return nil, err
	}
	for page := out; page.Continue != ""; {
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = page.Continue, "", ""
		if page, err = c.cache.List(c.ctx, o); err != nil {
			return nil, err
		}
		out.Entries = append(out.Entries, page.Entries...)
	}
	return out, nil
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
