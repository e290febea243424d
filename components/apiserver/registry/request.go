package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"quintet.dev/quintet/components/apiserver/cache"
)

// Request is the user, verb and target of a read or write. It is for one goroutine. Warnings and audit annotations go
// to the context, as k8s.io/apiserver's warning and audit packages have it.
type Request struct {
	User user.Info // nil for the server itself
	// Verb is that of the API: "create", "deletecollection", ...
	Verb string
	// Namespace is "" for what has none and for all namespaces, Name for collections and for objects that have none
	// yet.
	Namespace, Name string
	// MayHaveUnknownFields tells that there may be something in the object that its schema doesn't know: admission
	// changed it, say.
	MayHaveUnknownFields bool
	// SubmittedGroupKind is what a custom resource was written as, if not as one of the endpoint's kind and version;
	// else nil.
	SubmittedGroupKind *schema.GroupKind
}

// CheckName checks that an object of that name can be in the store.
func (q *Request) CheckName() error {
	if msgs := path.IsValidPathSegmentName(q.Name); len(msgs) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", q.Name, strings.Join(msgs, ";")))
	}
	return nil
}

// InNamespace makes obj one of the request's namespace, or fails if it says that it belongs elsewhere.
func (q *Request) InNamespace(obj metav1.Object) error {
	switch obj.GetNamespace() {
	case q.Namespace:
	case "":
		obj.SetNamespace(q.Namespace)
	default:
		if q.Namespace != "" {
			return apierrors.NewBadRequest(
				"the namespace of the provided object does not match the namespace sent on the request")
		}
		obj.SetNamespace("") // what has no namespace may be sent with one, as upstream allows
	}
	return nil
}

// SameName fails if an object is another than the request names.
func (q *Request) SameName(obj metav1.Object) error {
	if err := q.InNamespace(obj); err != nil {
		return err
	}
	switch name := obj.GetName(); name {
	case q.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", q.Name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", name, q.Name))
	}
}

// Reader reads through one endpoint for one request. It is a small value, made by Endpoint.Reader.
type Reader struct {
	*Endpoint
	*Request
}

// Reader reads what q asks for.
func (ep *Endpoint) Reader(q *Request) Reader { return Reader{ep, q} }

func (r Reader) key() string { return r.Cache.Key(r.Namespace, r.Name) }

// Get reads the object that the request names: what is stored now if resourceVersion is "", else something as new as
// that.
func (r Reader) Get(ctx context.Context, resourceVersion string) (*cache.Entry, error) {
	e, err := r.Cache.Get(ctx, r.key(), resourceVersion)
	if err != nil {
		return nil, r.NotFound(err)
	}
	if resourceVersion == "" {
		e = r.withLiveConversion(e)
	}
	return e, nil
}

// NotFound makes an error that nothing was found speak of the resource as it was asked for: a cache knows but one name.
func (r Reader) NotFound(err error) error {
	if apierrors.IsNotFound(err) && r.Resource.Group != r.Kind.Hub.Group {
		return apierrors.NewNotFound(r.Resource, r.Name)
	}
	return err
}

// Writer writes through one endpoint for one request. It is a small value, made by Endpoint.Writer; what it finds out
// it notes in the Request.
type Writer struct{ Reader }

// Writer writes what q asks for.
func (ep *Endpoint) Writer(q *Request) Writer { return Writer{Reader{ep, q}} }

// warn tells the client something with a request that goes on.
func warn(ctx context.Context, texts ...string) {
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}

// IsDryRun reads options that were validated: there is but one value.
func IsDryRun(dryRun []string) bool { return slices.Contains(dryRun, metav1.DryRunAll) }
