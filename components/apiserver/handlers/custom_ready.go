package handlers

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Upstream has a cache for each version of a custom resource. It isn't ready as long as one of the objects can't be
// converted to that version, as the webhook is unavailable or its answer is invalid.

// convertible tells what keeps the objects of a custom resource from being had in the version of the request, if only
// one can't.
func (ep *endpoint) convertible() (err error) {
	if ep.Kind.Custom == nil {
		return nil
	}
	if ep.Cache.AllIn(ep.Version.GroupVersion) {
		ep.outage.over()
		return nil
	}
	ep.Cache.PeekList("", func(e *cache.Entry) bool {
		if e.Object.GetObjectKind().GroupVersionKind().GroupVersion() != ep.Version.GroupVersion {
			if ep.Kind.Custom.Remote || !ep.knows(e.Object) {
				_, err = e.In(ep.Kind, ep.Version)
			}
		}
		return err == nil
	})
	if err == nil {
		ep.outage.over()
	}
	return err
}

// knows tells whether an object is of one of the versions that the definition still has.
func (ep *endpoint) knows(obj api.Object) bool {
	return ep.Kind.Version(obj.GetObjectKind().GroupVersionKind().GroupVersion()) != nil
}

// unready is the answer to a read of all objects of a cache one of which can't be converted.
func (c *call) unready(err error) error {
	var failed *api.ConversionError
	if !errors.As(err, &failed) {
		return err
	}
	again := retryAfter(c.outage.since(c.api.config.Clock.Now()))
	return apierrors.NewTooManyRequests(
		fmt.Sprintf("storage is (re)initializing: failed to list %s: %v", c.GVK, failed), again)
}

// isFromStore tells of a list that upstream reads from the store while its cache isn't ready: a page of all there is.
// Only the objects in it have to be converted, and what keeps them from it is told straight.
func isFromStore(limit int64, p cache.Predicate) bool {
	return limit > 0 && (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty())
}

// ends tells whether a watch of a custom resource ends without an error event: the definition has changed, or an object
// can't be converted. The client gets the reason when it watches again.
func (ep *endpoint) ends(err error) bool {
	var closed *cache.ClosedError
	var failed *api.ConversionError
	return ep.Kind.Custom != nil && (errors.As(err, &closed) || errors.As(err, &failed))
}

// outage remembers since when the objects of a version can't be had.
type outage struct {
	mu    sync.Mutex
	began time.Time // zero while there is none
}

// since tells how long it lasts; it begins now if there was none.
func (o *outage) since(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = now
	}
	return now.Sub(o.began)
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = time.Time{}
}

// retryAfter is the Retry-After in seconds: it grows with the duration of the outage.
func retryAfter(outage time.Duration) int {
	const growth, most = 0.06, 30 // per second; seconds
	return int(min(most, math.Exp(growth*outage.Seconds())))
}
