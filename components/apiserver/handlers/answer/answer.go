// Package answer writes the Status objects that end failed requests: the one place that maps errors to HTTP.
package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/audit/record"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/latency"
)

type cut struct{}

// Cut is what a handler panics with that can't send the rest of an answer: the connection is to be cut. It is no fault
// of the handler's, and what was asked has been done.
var Cut any = cut{}

// Error answers a request with err, in the format that the client accepts.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	ErrorIn(w, r, err, negotiate.Offer{Media: negotiate.All})
}

// ErrorIn answers a request with err, in a format of those offered.
func ErrorIn(w http.ResponseWriter, r *http.Request, err error, offer negotiate.Offer) {
	if errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		told(r, StatusOf(r.Context(), err))
		timedOut(w)
		return
	}
	send(w, r, StatusOf(r.Context(), err), offer)
}

// timedOut answers a request whose time is over, whatever became of it: as upstream does, without caring what the
// client accepts.
func timedOut(w http.ResponseWriter) {
	body, err := json.Marshal(
		apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0).ErrStatus)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = w.Write(append(body, '\n'))
}

// Forbid answers a request that its user may not make.
func Forbid(w http.ResponseWriter, r *http.Request, a authorizer.Attributes, reason string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	Error(w, r, Forbidden(a, reason))
}

// Internal answers a request that could not be authorized or rejected. As upstream's, the answer is no Status.
func Internal(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).Error(err, "Failed to authorize request", "uri", r.RequestURI)
	http.Error(w, escaped.Replace(fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, err)),
		http.StatusInternalServerError)
}

// escaped makes text harmless in a page, though a browser is told that it is none.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Status answers a request with a Status.
func Status(w http.ResponseWriter, r *http.Request, status *metav1.Status) {
	send(w, r, status, negotiate.Offer{Media: negotiate.All})
}

// told notes what became of a request.
func told(r *http.Request, status *metav1.Status) {
	record.Response(r.Context(), status,
		func(obj runtime.Object) ([]byte, error) { return codec.Body(obj, statusKind, codec.JSON) })
}

func send(w http.ResponseWriter, r *http.Request, status *metav1.Status, offer negotiate.Offer) {
	choice, err := offer.Accept(r)
	if err != nil { // what went wrong must be told, even in a form that wasn't asked for
		choice = negotiate.Choice{Media: codec.JSON, Pretty: true}
	} else {
		told(r, status)
	}
	err = latency.From(r.Context()).Serialize(func() error { return write(w, status, choice) })
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// write sends a Status; it fails only before.
func write(w http.ResponseWriter, status *metav1.Status, choice negotiate.Choice) error {
	body, err := Encode(status, choice)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", choice.Media.String())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
	return nil
}

// StatusOf is err as a Status that is ready for the wire.
func StatusOf(ctx context.Context, err error) *metav1.Status {
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
	case errors.Is(err, context.DeadlineExceeded):
		api = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, context.Canceled):
		api = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 499, Message: "the client closed the request"}}
	default:
		klog.FromContext(ctx).Error(err, "Request failed with an internal error")
		api = &apierrors.StatusError{ErrStatus: metav1.Status{Message: err.Error()}}
	}
	status := api.Status()
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

// Encode writes a Status in a format.
func Encode(status *metav1.Status, choice negotiate.Choice) ([]byte, error) {
	if choice.Pretty && choice.Media == codec.JSON {
		return json.MarshalIndent(status, "", "  ")
	}
	body, err := codec.Body(status, statusKind, choice.Media)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = codec.WriteObject(&out, choice.Media, statusKind, body)
	return out.Bytes(), err
}

var statusKind = metav1.Unversioned.WithKind("Status")
