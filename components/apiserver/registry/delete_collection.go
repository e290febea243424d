package registry

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
)

// deletePage is how many objects are listed at a time. To ask for pages has a meaning: a resource version that comes
// without a match is then the only one that will do.
const deletePage = 10000

// ListToDelete lists what is to be deleted: all that o chooses, unless it asks for a page.
func (r Reader) ListToDelete(ctx context.Context, o cache.ListOptions) (*cache.List, error) {
	if o.Limit != 0 {
		return r.Cache.List(ctx, o)
	}
	o.Limit = deletePage
	out, err := r.Cache.List(ctx, o)
	if err != nil {
		return nil, err
	}
	for page := out; page.Continue != ""; {
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = page.Continue, "", ""
		if page, err = r.Cache.List(ctx, o); err != nil {
			return nil, err
		}
		out.Entries = append(out.Entries, page.Entries...)
	}
	return out, nil
}

// DeleteEach deletes objects, each as Delete would and several at a time if that is configured, until one can't be.
func (w Writer) DeleteEach(ctx context.Context, entries []*cache.Entry, options *metav1.DeleteOptions) error {
	group, failed := errgroup.WithContext(ctx) // what has begun isn't cut short
	group.SetLimit(max(w.registry.config.DeleteWorkers, 1))
	for _, e := range entries {
		if failed.Err() != nil {
			break
		}
		group.Go(func() error {
			if failed.Err() != nil {
				return failed.Err()
			}
			one := *w.Request
			one.Name = e.Object.GetName()
			_, _, err := w.Endpoint.Writer(&one).Delete(ctx, options.DeepCopy())
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}
