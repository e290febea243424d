package cache

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/storage"
)

func formatRevision(r int64) string { return strconv.FormatInt(r, 10) }

// parseRevision reads a resource version other than "".
func parseRevision(s string) (int64, error) {
	r, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("Invalid value: %q: resourceVersion must be a number that the server gave out, or empty", s))
	}
	return int64(r), nil
}

func errExpired(why string) error { return apierrors.NewResourceExpired(why) }

// errTooOld answers a watch from a revision that the history no longer reaches back to.
func errTooOld(wanted, oldest int64) error {
	return errExpired(fmt.Sprintf("too old resource version: %d (%d)", wanted, oldest))
}

// errTooLarge is upstream's answer to a resource version that doesn't come to be in time: clients know it by its cause.
func errTooLarge(wanted, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

func (c *Cache) errClosed() error {
	return apierrors.NewServiceUnavailable("the server stops, or no longer serves " + c.resource.String())
}

func (c *Cache) errNotFound(key string) error {
	_, name := c.names(key)
	return apierrors.NewNotFound(c.resource, name)
}

// errStore makes a status error of a failure of the store.
func (c *Cache) errStore(err error, verb string) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apierrors.NewServerTimeout(c.resource, verb, 0)
	case errors.Is(err, storage.ErrClosed):
		return c.errClosed()
	}
	return apierrors.NewInternalError(err)
}
