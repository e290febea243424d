package handlers

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// Upstream has a cache for each version of a custom resource. It isn't ready as long as one of the objects can't be had in that
// version, as who converts isn't there or answers nonsense.

// convertible tells what keeps the objects of a custom resource from being had in the version of the request, if only one
// can't.
func (c *call) convertible() (err error) {
	if c.kind.Custom == nil {
		return nil
	}
	if c.cache.AllIn(c.version.GroupVersion) {
		c.outage.over()
		return nil
	}
	c.cache.PeekList("", func(e *cache.Entry) bool {
		if e.Object.GetObjectKind().GroupVersionKind().GroupVersion() != c.version.GroupVersion {
			if c.kind.Custom.Remote || !c.knows(e.Object) {
				_, err = e.In(c.kind, c.version)
			}
		}
		return err == nil
	})
	if err == nil {
		c.outage.over()
	}
	return err
}

// knows tells whether an object is of one of the versions that the definition still has.
func (d *endpoint) knows(obj kinds.Object) bool {
	return d.kind.Version(obj.GetObjectKind().GroupVersionKind().GroupVersion()) != nil
}

// unready is the answer to whoever asks a cache for all objects of which one can't be converted.
func (c *call) unready(err error) error {
	var failed *kinds.ConversionError
	if !errors.As(err, &failed) {
		return err
	}
	again := patience(c.outage.since(c.api.config.Clock.Now()))
	return apierrors.NewTooManyRequests(fmt.Sprintf("storage is (re)initializing: failed to list %s: %v", c.gvk, failed), again)
}

// isFromStore tells of a list that upstream reads from the store while its cache isn't ready: a page of all there is. Only the
// objects in it have to be converted, and what keeps them from it is told straight.
func isFromStore(limit int64, p cache.Predicate) bool {
	return limit > 0 && (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty())
}

// ends tells whether a watch of a custom resource ends without a word: another definition holds now, or an object can't be
// converted. Whoever comes back is told why.
func (c *call) ends(err error) bool {
	var closed *cache.ClosedError
	var failed *kinds.ConversionError
	return c.kind.Custom != nil && (errors.As(err, &closed) || errors.As(err, &failed))
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

// patience is in how many seconds it is worth to ask again: the later, the longer it has lasted.
func patience(outage time.Duration) int {
	const growth, most = 0.06, 30 // per second; seconds
	return int(min(most, math.Exp(growth*outage.Seconds())))
}
