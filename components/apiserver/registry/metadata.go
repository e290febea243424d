package registry

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// WipeSystemFields takes out of a new object's metadata what the system owns: admission must not see what a client made
// up.
func WipeSystemFields(obj api.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetSelfLink("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
}

// groupKind is what errors about the content call the kind: by its own group, whichever it was asked for in, or as the
// content does.
func (w Writer) groupKind(obj api.Object) schema.GroupKind {
	switch {
	case w.Kind.Custom == nil:
		return schema.GroupKind{Group: w.Kind.Hub.Group, Kind: w.Kind.Name}
	case w.SubmittedGroupKind != nil && w.OnlyStatus():
		return *w.SubmittedGroupKind
	}
	return obj.GetObjectKind().GroupVersionKind().GroupKind()
}

// validName tells what is wrong with a name of the kind.
func (ep *Endpoint) validName() validation.ValidateNameFunc {
	if f := ep.Kind.Strategy.ValidateName; f != nil {
		return f
	}
	return checks.SubdomainOf
}

// keepIdentity restores the metadata that no update changes; clients may leave them out.
func keepIdentity(obj, old metav1.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if old.GetDeletionGracePeriodSeconds() != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

var metadata = field.NewPath("metadata")

func finalizerErrors(s *api.Strategy[api.Object], obj metav1.Object) field.ErrorList {
	if s.AnyFinalizer {
		return nil
	}
	return checks.Finalizers(obj.GetFinalizers(), metadata.Child("finalizers"))
}

// modified is the answer to a write that was based on another version than the current one.
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// checkResourceVersion checks the resource version that a change was based on against the current one.
func (w Writer) checkResourceVersion(obj, old api.Object) error {
	given, err := apistorage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	if err != nil {
		return ClientFault(err.Error())
	}
	switch {
	case given == 0 && !w.Kind.Strategy.UnconditionalUpdate:
		return apierrors.NewInvalid(schema.GroupKind{Group: w.Resource.Group, Kind: w.Resource.Resource}, w.Name,
			field.ErrorList{field.Invalid(metadata.Child("resourceVersion"), 0, "must be specified for an update")})
	case given != 0 && obj.GetResourceVersion() != old.GetResourceVersion():
		return apierrors.NewConflict(w.Resource, w.Name, fmt.Errorf("%s", modified))
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	return nil
}

// ClientFault is a fault of the client's that upstream takes for one of its own.
func ClientFault(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}

// namedAs tells whether the names of an object pass a check.
func namedAs(obj metav1.Object, check validation.ValidateNameFunc) bool {
	return len(check(obj.GetName(), false)) == 0 &&
		(obj.GetGenerateName() == "" || len(check(obj.GetGenerateName(), true)) == 0)
}

// What is told of duplicate owner references: in what the client sent, and in what admission made of it.
const (
	duplicateOwners         = ".metadata.ownerReferences contains duplicate entries; " + duplicatesGo
	duplicateOwnersAdmitted = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; " +
		duplicatesGo
	duplicatesGo = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %s"
)

// DropDuplicateOwners keeps the first of owner references that are the same in what a client sent, and warns of the
// others.
func DropDuplicateOwners(ctx context.Context, obj metav1.Object) {
	dropDuplicateOwners(ctx, obj, duplicateOwners)
}

func dropDuplicateOwners(ctx context.Context, obj metav1.Object, format string) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var out []metav1.OwnerReference
	var dropped []string
	for _, ref := range refs {
		same := func(o metav1.OwnerReference) bool { return o.UID == ref.UID && reflect.DeepEqual(o, ref) }
		if slices.ContainsFunc(out, same) {
			dropped = append(dropped, string(ref.UID))
			continue
		}
		out = append(out, ref)
	}
	if len(dropped) > 0 {
		warn(ctx, fmt.Sprintf(format, strings.Join(dropped, ", ")))
		obj.SetOwnerReferences(out)
	}
}
