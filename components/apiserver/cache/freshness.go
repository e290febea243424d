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

// freshness is how new a cache is, compared with its store. A read that has waited is answered from a state that is no
// older than the client wants, and no older than the store was when the read began if that is wanted.
type freshness struct {
	*readiness
	set           *Set
	cacheDisabled bool // reads are never older than the store
	counts        *counts
}

// waitUntilFresh waits until the cache is as new as resourceVersion says. Where that is as new as the store is now, the
// error
// may be a *behindError.
func (f *freshness) waitUntilFresh(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		return f.catchUp(ctx, 0, f.set.timeout)
	}
	revision, err := parseRevision(resourceVersion)
	switch {
	case err != nil && f.cacheDisabled:
		return errInvalid(err)
	case err != nil:
		return errUnparsed(err)
	case f.cacheDisabled:
		return f.catchUp(ctx, revision, f.set.timeout)
	}
	if err := f.WaitReady(ctx); err != nil || revision == 0 {
		return f.errs.store(err, "get")
	}
	return f.reach(ctx, revision, f.set.timeout)
}

// waitForGet does so for one object.
func (f *freshness) waitForGet(ctx context.Context, resourceVersion string) error {
	if resourceVersion == "" {
		return f.catchUp(ctx, 0, f.set.timeout/getShare)
	}
	return f.waitUntilFresh(ctx, resourceVersion)
}

// catchUp waits until the cache is as new as the store is now, which must be at least at a revision.
func (f *freshness) catchUp(ctx context.Context, least int64, timeout time.Duration) error {
	if err := f.WaitReady(ctx); err != nil {
		return f.errs.store(err, "get")
	}
	revision, err := f.set.revisionCoalescer.current(ctx)
	if err != nil {
		return f.errs.store(err, "get")
	}
	if revision < least {
		return errBeyond(least, revision)
	}
	if f.set.progressUnsupported() {
		return &behindError{revision, ErrUntold}
	}
	err = f.reach(ctx, revision, timeout)
	switch {
	case err == nil:
		f.counts.consistent.Add(1)
	case isTooLarge(err):
		return &behindError{revision, err}
	default:
		f.counts.failed.Add(1)
	}
	return err
}

// waitForWatch waits for what a watch must know before it begins. Only initial events need a certain state: changes
// after a revision that has yet to come can be waited for.
func (f *freshness) waitForWatch(ctx context.Context, resourceVersion string, initial bool) error {
	switch {
	case initial && f.set.progressUnsupported():
		return ErrUntold
	case initial:
		err := f.waitUntilFresh(ctx, resourceVersion)
		if status, ok := err.(*apierrors.StatusError); ok && isTooLarge(err) {
			status.ErrStatus.Details.RetryAfterSeconds = 1 // of a watch of the store, too
		}
		return err
	case resourceVersion == "", resourceVersion == "0" && f.cacheDisabled:
		err := f.waitUntilFresh(ctx, "")
		if _, behind := isBehind(err); behind {
			return nil // as with upstream, what is there will do
		}
		return err
	}
	return f.errs.store(f.WaitReady(ctx), "watch")
}

// reach waits until the cache is at a revision.
func (f *freshness) reach(ctx context.Context, revision int64, timeout time.Duration) error {
	if f.set.Revision() >= revision {
		f.counts.waits.add(0)
		return nil
	}
	begin := f.set.config.Clock.Now()
	defer func() { f.counts.waits.add(f.set.config.Clock.Since(begin)) }()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f.set.reached.wait(waiting, f.set.config.Clock, revision, f.set.requestProgress)
	if err != nil && ctx.Err() == nil {
		return errTooLarge(revision, f.set.Revision())
	}
	return f.errs.store(err, "get")
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

// requestProgress requests a progress notification from the store.
func (s *Set) requestProgress(ctx context.Context) {
	if !s.progressUnsupported() {
		_ = s.config.Store.RequestProgress(ctx)
	}
}

// progressUnsupported tells whether the store can't send progress notifications: one might be ahead of the events that
// have come.
func (s *Set) progressUnsupported() bool { return s.config.Progress != nil && !s.config.Progress() }
