package cache

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freshTimeout is upstream's timeout. A get of one object has a shorter one: the store answers that with a single read.
const (
	freshTimeout = 3 * time.Second
	getShare     = 10 // a get waits for one such part of it
)

// behindError is that a cache could not be made as new as its store, which is at the revision: what is wanted is to be
// read there. Err is of the API.
type behindError struct {
	revision int64
	err      error
}

func (e *behindError) Error() string { return e.err.Error() }
func (e *behindError) Unwrap() error { return e.err }

func isBehind(err error) (*behindError, bool) {
	var behind *behindError
	return behind, errors.As(err, &behind)
}

func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// waitUntilFresh waits until the cache is as new as resourceVersion says. Where that is as new as the store is now, the
// error may be a
// *behindError.
func (c *Cache) waitUntilFresh(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		return c.catchUp(ctx, 0, c.set.timeout)
	}
	revision, err := parseRevision(resourceVersion)
	switch {
	case err != nil && c.cacheDisabled:
		return errInvalid(err)
	case err != nil:
		return errUnparsed(err)
	case c.cacheDisabled:
		return c.catchUp(ctx, revision, c.set.timeout)
	}
	if err := c.WaitReady(ctx); err != nil || revision == 0 {
		return c.errStore(err, "get")
	}
	return c.reach(ctx, revision, c.set.timeout)
}

// freshenGet does so for one object.
func (c *Cache) freshenGet(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		return c.catchUp(ctx, 0, c.set.timeout/getShare)
	}
	return c.waitUntilFresh(ctx, resourceVersion)
}

// catchUp waits until the cache is as new as the store is now, which must be at least at a revision.
func (c *Cache) catchUp(ctx context.Context, least int64, timeout time.Duration) error {
	if err := c.WaitReady(ctx); err != nil {
		return c.errStore(err, "get")
	}
	revision, err := c.set.revisionCoalescer.current(ctx)
	if err != nil {
		return c.errStore(err, "get")
	}
	if revision < least {
		return errBeyond(least, revision)
	}
	if c.set.progressUnsupported() {
		return &behindError{revision, ErrUntold}
	}
	err = c.reach(ctx, revision, timeout)
	switch {
	case err == nil:
		c.counts.consistent.Add(1)
	case isTooLarge(err):
		return &behindError{revision, err}
	default:
		c.counts.failed.Add(1)
	}
	return err
}

// instead counts a read of the store by a request that had waited for the cache in vain.
func (c *Cache) instead(of *behindError, err error) {
	switch {
	case !isTooLarge(of):
	case err == nil, apierrors.IsNotFound(err):
		c.counts.fellBack.Add(1)
	default:
		c.counts.fellFailing.Add(1)
	}
}

// CatchUp waits until the caches are as new as the store is now, but no longer than readers do: a watch that stands
// still is no reason to fail.
func (s *Set) CatchUp(ctx context.Context) error {
	revision, err := s.revisionCoalescer.current(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.reached.wait(waiting, s.config.Clock, revision, s.requestProgress); err != nil {
		return ctx.Err()
	}
	return nil
}

// reach waits until the cache is at a revision.
func (c *Cache) reach(ctx context.Context, revision int64, timeout time.Duration) error {
	if c.set.Revision() >= revision {
		c.counts.waits.add(0)
		return nil
	}
	begin := c.set.config.Clock.Now()
	defer func() { c.counts.waits.add(c.set.config.Clock.Since(begin)) }()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.set.reached.wait(waiting, c.set.config.Clock, revision, c.set.requestProgress)
	if err != nil && ctx.Err() == nil {
		return errTooLarge(revision, c.set.Revision())
	}
	return c.errStore(err, "get")
}

// requestProgress requests a progress notification from the store.
func (s *Set) requestProgress(ctx context.Context) {
	if !s.progressUnsupported() {
		_ = s.config.Store.RequestProgress(ctx)
	}
}

// progressUnsupported tells whether the store can't send progress notifications: one might be ahead of the events that
// have come.
func (s *Set) progressUnsupported() bool { return s.config.Progress != nil && !s.config.Progress() }
