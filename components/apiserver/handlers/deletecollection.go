package handlers

import (
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
	w := c.writer()
	l, err := w.ListToDelete(c.ctx, cache.ListOptions{
		Namespace: c.Namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return c.unready(err)
	}
	if err := w.DeleteEach(c.ctx, l.Entries, options); err != nil {
		return err
	}
	return c.out.listed(l)
}
