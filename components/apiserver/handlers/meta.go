package handlers

import (
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// Generated names end in a random suffix and fit a DNS label.
const (
	suffixLength    = 5
	maxGeneratePart = 63 - suffixLength
)

// wipe takes out of a new object's metadata what the system owns: admission must not see what a client made up.
func wipe(obj kinds.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetSelfLink("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
}

// birth gives a new object what the system owns of its metadata.
func (c *call) birth(obj kinds.Object) {
	obj.SetUID(types.UID(uuid.NewUUID()))
	obj.SetCreationTimestamp(c.now())
	if base := obj.GetGenerateName(); base != "" && obj.GetName() == "" {
		obj.SetName(c.generate(base))
	}
}

// generate makes a name of its own out of its beginning, where such a thing can be a name.
func (c *call) generate(base string) string {
	if c.kind.Strategy.NoGeneratedNames {
		return base
	}
	if len(base) > maxGeneratePart {
		base = base[:maxGeneratePart]
	}
	return base + rand.String(suffixLength)
}

// inNamespace makes obj one of the request's namespace, or fails if it says that it belongs elsewhere.
func (c *call) inNamespace(obj metav1.Object) error {
	switch obj.GetNamespace() {
	case c.namespace:
	case "":
		obj.SetNamespace(c.namespace)
	default:
		if c.namespace != "" {
			return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		obj.SetNamespace("") // what has no namespace may be sent with one, as upstream allows
	}
	return nil
}

// sameName fails if an object is another than the URL names.
func (c *call) sameName(obj metav1.Object) error {
	if err := c.inNamespace(obj); err != nil {
		return err
	}
	switch name := obj.GetName(); name {
	case c.name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.name))
	}
}

// groupKind is what errors about the content call the kind: by its own group, whichever it was asked for in, or as the content does.
func (c *call) groupKind(obj kinds.Object) schema.GroupKind {
	switch {
	case c.kind.Custom == nil:
		return schema.GroupKind{Group: c.kind.Hub.Group, Kind: c.kind.Name}
	case c.alien != nil && c.onlyStatus():
		return *c.alien
	}
	return obj.GetObjectKind().GroupVersionKind().GroupKind()
}

// validName tells what is wrong with a name of the kind.
func (c *call) validName() validation.ValidateNameFunc {
	if f := c.kind.Strategy.ValidateName; f != nil {
		return f
	}
	return checks.SubdomainOf
}

// prepareCreate runs a new object through its strategy: what upstream does between admission's two halves.
func (c *call) prepareCreate(obj kinds.Object) error {
	if err := c.inNamespace(obj); err != nil { // admission may have moved it
		return err
	}
	s := &c.kind.Strategy
	if s.PrepareCreate != nil {
		s.PrepareCreate(c.ctx, obj)
	}
	var errs field.ErrorList
	if s.Authorize != nil {
		errs = s.Authorize(c.ctx, obj)
	}
	if s.Meta != kinds.MetaNothing {
		errs = append(errs, validation.ValidateObjectMetaAccessor(obj, c.kind.Namespaced, c.validName(), metadata)...)
		errs = append(errs, finalizerErrors(s, obj)...)
	}
	if s.Validate != nil {
		errs = append(errs, s.Validate(c.ctx, obj)...)
	}
	if len(errs) == 0 && (s.Meta == kinds.MetaNothing || !inPaths(obj)) { // what holds for all kinds, though they may allow more names
		errs = validation.ValidateObjectMetaAccessor(obj, c.kind.Namespaced, path.ValidatePathSegmentName, metadata)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(c.groupKind(obj), obj.GetName(), errs)
	}
	if s.Warnings != nil {
		c.warn(s.Warnings(c.ctx, obj, nil))
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// inPaths tells whether the names of an object can stand in a path, as those of all kinds must.
func inPaths(obj metav1.Object) bool { return namedAs(obj, path.ValidatePathSegmentName) }

// namedAs tells whether the names of an object pass a check.
func namedAs(obj metav1.Object, check validation.ValidateNameFunc) bool {
	return len(check(obj.GetName(), false)) == 0 && (obj.GetGenerateName() == "" || len(check(obj.GetGenerateName(), true)) == 0)
}

// prepareUpdate runs a change through the strategy of this endpoint. obj has its resource version settled.
func (c *call) prepareUpdate(obj, old kinds.Object) error {
	if err := c.inNamespace(obj); err != nil { // admission may have moved it
		return err
	}
	s, kind := c.strategy, c.groupKind(obj)
	obj.SetGeneration(old.GetGeneration())
	keepIdentity(obj, old)
	if s.PrepareUpdate != nil {
		s.PrepareUpdate(c.ctx, obj, old)
	}
	keepIdentity(obj, old)
	if errs := c.changeErrors(obj, old); len(errs) > 0 {
		return apierrors.NewInvalid(kind, obj.GetName(), errs)
	}
	if s.Warnings != nil {
		c.warn(s.Warnings(c.ctx, obj, old))
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// changeErrors are the faults of a change. Kinds tell those of the metadata again, as part of their own checks.
func (c *call) changeErrors(obj, old kinds.Object) field.ErrorList {
	s := c.strategy
	ofObject := validation.ValidateObjectMetaAccessor(obj, c.kind.Namespaced, path.ValidatePathSegmentName, metadata)
	ofChange := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	errs := slices.Concat(ofObject, ofChange)
	finalizers := finalizerErrors(s, obj)
	ofChange = append(ofChange, finalizers...)
	if len(ofObject) > 0 || !namedAs(obj, c.validName()) { // else the same is found again: nothing
		ofObject = validation.ValidateObjectMetaAccessor(obj, c.kind.Namespaced, c.validName(), metadata)
	}
	ofObject = append(ofObject, finalizers...)
	if s.ValidateAmong != nil {
		return append(errs, s.ValidateAmong(c.ctx, obj, old, kinds.MetaErrors{Object: ofObject, Change: ofChange})...)
	}
	switch s.Meta {
	case kinds.MetaChanges:
		errs = append(errs, ofChange...)
	case kinds.MetaObjects:
		errs = append(errs, ofObject...)
	case kinds.MetaAll:
		errs = slices.Concat(errs, ofChange, ofObject)
	case kinds.MetaAllInOrder:
		errs = slices.Concat(errs, ofObject, ofChange)
	}
	if s.ValidateUpdate != nil {
		errs = append(errs, s.ValidateUpdate(c.ctx, obj, old)...)
	}
	return errs
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

func finalizerErrors(s *kinds.Strategy, obj metav1.Object) field.ErrorList {
	if s.AnyFinalizer {
		return nil
	}
	return checks.Finalizers(obj.GetFinalizers(), metadata.Child("finalizers"))
}

// modified is the answer to a write that was based on another version than the current one.
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// settleVersion checks the resource version that a change was based on against the current one.
func (c *call) settleVersion(obj, old kinds.Object) error {
	given, err := apistorage.APIObjectVersioner{}.ObjectResourceVersion(obj)
	if err != nil {
		return internal(err.Error())
	}
	switch {
	case given == 0 && !c.kind.Strategy.UnconditionalUpdate:
		return apierrors.NewInvalid(schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Resource}, c.name, field.ErrorList{
			field.Invalid(metadata.Child("resourceVersion"), 0, "must be specified for an update")})
	case given != 0 && obj.GetResourceVersion() != old.GetResourceVersion():
		return apierrors.NewConflict(c.resource, c.name, fmt.Errorf("%s", modified))
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	return nil
}

// unversioned refuses a new object that says of which version it is.
func unversioned(obj kinds.Object) error {
	if given, err := (apistorage.APIObjectVersioner{}).ObjectResourceVersion(obj); err == nil && given != 0 {
		return internal("resourceVersion should not be set on objects to be created")
	}
	return nil
}

// internal is a fault of the client's that upstream takes for one of its own.
func internal(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message,
	}}
}
