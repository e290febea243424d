package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/storage"
)

func formatRevision(r int64) string { return strconv.FormatInt(r, 10) }

// parseRevision reads a resource version other than "". The error is not one of the API yet.
func parseRevision(s string) (int64, error) {
	r, err := apistorage.APIObjectVersioner{}.ParseResourceVersion(s)
	return int64(min(r, math.MaxInt64)), err
}

// errInvalid is the error of an invalid resource version.
func errInvalid(err error) error {
	return apierrors.NewBadRequest("invalid resource version: " + err.Error())
}

// errUnparsed answers a get or a watch of a cache so. Upstream takes it for a fault of its own there.
func errUnparsed(err error) error { return errPlain(err) }

// errPlain tells of a fault in its own words, without a reason, as upstream does with what its store says.
func errPlain(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

func errExpired(why string) error { return apierrors.NewResourceExpired(why) }

// errTooLarge is upstream's answer to a resource version that doesn't come to be in time: clients know it by its cause.
func errTooLarge(wanted, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// errBeyond is upstream's answer to a resource version that the store itself doesn't have: to wait a second is no use.
func errBeyond(wanted, current int64) error {
	err := errTooLarge(wanted, current)
	if status, ok := err.(*apierrors.StatusError); ok {
		status.ErrStatus.Details.RetryAfterSeconds = 0
	}
	return err
}

// ErrUntold answers a watch that begins with what there is, where the store can't be asked how far its own watch is, in
// upstream's words.
var ErrUntold error = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
	Message: "a watch stream was requested by the client but the required storage feature RequestWatchProgress is " +
		"disabled",
}}

// ErrBehind ends a watch whose watcher has left too many events unread. The missed events are still there for a watch
// that resumes from the last one seen, as the clients of upstream's server do, which gives no reason when it ends such
// a watch.
var ErrBehind = errExpired("the watcher has left too many events lying")

// ClosedError is the answer of a cache from which nothing more will come. Err is of the API.
type ClosedError struct{ Err error }

func (e *ClosedError) Error() string { return e.Err.Error() }
func (e *ClosedError) Unwrap() error { return e.Err }

// OutcomeUnknownError is a write that the store has not answered: it may have happened. It is answered as Err, which is
// of the API.
type OutcomeUnknownError struct{ Err error }

func (e *OutcomeUnknownError) Error() string { return e.Err.Error() }
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

// TooLargeError is a write that the store did not take for its size. It is answered as Err, which is of the API.
type TooLargeError struct{ Err error }

func (e *TooLargeError) Error() string { return e.Err.Error() }
func (e *TooLargeError) Unwrap() error { return e.Err }

// statusErrors answer for a resource what its store says.
type statusErrors struct {
	resource schema.GroupResource
	keys     keyLayout
}

func (e statusErrors) closed() error {
	return &ClosedError{apierrors.NewServiceUnavailable("the server stops, or no longer serves " + e.resource.String())}
}

func (e statusErrors) notFound(key string) error {
	_, name := e.keys.names(key)
	return apierrors.NewNotFound(e.resource, name)
}

// write makes a status error of a write that failed in the store.
func (e statusErrors) write(err error, verb string) error {
	var large *storage.TooLargeError
	var unsealed *storage.UnsealedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsealed):
		return apierrors.NewInternalError(err)
	case errors.As(err, &large):
		return &TooLargeError{errPlain(err)}
	}
	return &OutcomeUnknownError{e.store(err, verb)}
}

// store makes a status error of a failure of the store.
func (e statusErrors) store(err error, verb string) error {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, context.Canceled):
		return apierrors.NewServerTimeout(e.resource, verb, 0)
	case errors.Is(err, errWentBack):
		return apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, storage.ErrClosed):
		return e.closed()
	}
	return errPlain(err)
}
