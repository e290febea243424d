package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Change is a write to an object that may exist: what update, patch and apply have in common.
type Change struct {
	// Next makes the wanted hub object from the current entry. It is called again when another writer was faster, and
	// must return a fresh object each time. Its managed fields are already updated.
	Next func(current *cache.Entry) (api.Object, error)
	// First makes the object if there is none; nil means that it must exist.
	First func() (api.Object, error)
	// Create is what the creation is told as, MayCreate asks whether the user may create.
	Create    *metav1.CreateOptions
	MayCreate func(ctx context.Context) error
	// Options are those of the verb, for admission.
	Options runtime.Object
	DryRun  []string
	// UID is the identity that the current object must have, "" for any.
	UID types.UID
	// Owns says that the managed fields are what the change is about: they aren't given up for an object that is too
	// large with them.
	Owns bool
	// bare leaves the managed fields out.
	bare bool
}

// maxCreateRetries bounds the turns between finding an object gone and finding it there again.
const maxCreateRetries = 5

// Update applies the change and tells whether it created the object.
func (w Writer) Update(ctx context.Context, ch Change) (e *cache.Entry, created bool, err error) {
	for range maxCreateRetries {
		e, err = w.replace(ctx, ch)
		if !ch.Owns && isTooLarge(err) {
			ch.bare = true
			e, err = w.replace(ctx, ch)
		}
		if !apierrors.IsNotFound(err) {
			return e, false, unrefused(err)
		}
		switch {
		case ch.First == nil:
			return nil, false, apierrors.NewNotFound(w.Resource, w.Name)
		case ch.UID != "":
			return nil, false, w.otherUID(ch.UID, "", IsDryRun(ch.DryRun))
		}
		e, err = w.insertFirst(ctx, ch)
		if !apierrors.IsAlreadyExists(err) {
			return e, true, err
		}
	}
	return e, false, err
}

func (w Writer) insertFirst(ctx context.Context, ch Change) (*cache.Entry, error) {
	obj, err := ch.First()
	if err != nil {
		return nil, err
	}
	if err := w.SameName(obj); err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	return w.insert(ctx, obj, creation{options: ch.Create, owns: ch.Owns, mayCreate: ch.MayCreate})
}

// isTooLarge tells whether the store did not take an object for its size.
func isTooLarge(err error) bool {
	var large *cache.TooLargeError
	return errors.As(err, &large)
}

// otherUID is the conflict of a change that names another identity than the object has; "" if there is none.
// A dry run knows keys without the prefix of all.
func (w Writer) otherUID(given, has types.UID, dryRun bool) error {
	key := w.key()
	if i := strings.Index(key, "/"+w.Kind.Prefix+"/"); dryRun && i > 0 {
		key = key[i:]
	}
	return apierrors.NewConflict(w.Resource, w.Name, apistorage.NewInvalidObjError(key, fmt.Sprintf(
		"Precondition failed: UID in precondition: %s, UID in object meta: %s", given, has)))
}

// errRemove says that a change leaves an object behind that only waited for it to go.
var errRemove = errors.New("the object is to be removed")

// refusal is why what is there isn't changed or removed. Whatever it says, a webhook may call it NotFound, it doesn't
// say that nothing is there.
type refusal struct{ error }

// unrefused is an error as the client gets it.
func unrefused(err error) error {
	if refused, ok := err.(refusal); ok {
		return refused.error
	}
	return err
}

// replace changes an object that exists.
func (w Writer) replace(ctx context.Context, ch Change) (*cache.Entry, error) {
	if err := w.CheckName(); err != nil {
		return nil, err
	}
	a := attributes{operation: admission.Update, options: ch.Options, dryRun: IsDryRun(ch.DryRun)}
	done := func(api.Outcome) {}
	var removed, old api.Object
	var removedAt int64
	mutate := func(current *cache.Entry) (api.Object, error) {
		done(api.NotStored)
		done = func(api.Outcome) {}
		current, err := w.ToWork(current)
		if err != nil {
			return nil, refusal{err}
		}
		obj, err := w.wanted(ctx, ch, a, current)
		if err != nil {
			return nil, refusal{err}
		}
		if done, err = w.allocate(ctx, obj, current.Object, a.dryRun); err != nil {
			return nil, refusal{err}
		}
		if err := w.changed(ctx, a, obj, current.Object); err != nil {
			return nil, refusal{err}
		}
		if w.finished(obj, current.Object) {
			removed, removedAt = obj, current.Revision
			return nil, errRemove
		}
		old = current.Object
		return obj, nil
	}
	if a.dryRun {
		defer func() { done(api.NotStored) }()
		current, err := w.Cache.Get(ctx, w.key(), "")
		if err != nil {
			return nil, err
		}
		obj, err := mutate(current)
		if errors.Is(err, errRemove) {
			return Unstored(removed), nil
		}
		if err != nil {
			return nil, err
		}
		return w.unwritten(obj)
	}
	e, err := w.Cache.Update(ctx, w.key(), w.Kind.TTL, mutate)
	done(outcomeOf(err))
	if errors.Is(err, errRemove) {
		return w.removeChanged(ctx, ch, removed, removedAt)
	}
	if err == nil && w.Strategy.Stored != nil {
		w.Strategy.Stored(e.Object, old)
	}
	return e, err
}

// wanted is the object that a change makes of the current one, before the kind's strategy has seen it.
func (w Writer) wanted(ctx context.Context, ch Change, a attributes, current *cache.Entry) (api.Object, error) {
	old := current.Object
	if ch.UID != "" && ch.UID != old.GetUID() {
		return nil, w.otherUID(ch.UID, old.GetUID(), IsDryRun(ch.DryRun))
	}
	obj, err := ch.Next(current)
	if err != nil {
		return nil, err
	}
	if err := w.SameName(obj); err != nil {
		return nil, err
	}
	if err := w.mutateChange(ctx, a, obj, old); err != nil {
		return nil, err
	}
	dropDuplicateOwners(ctx, obj, duplicateOwnersAdmitted)
	if ch.bare {
		obj.SetManagedFields(nil)
	}
	if err := w.checkResourceVersion(obj, old); err != nil {
		return nil, err
	}
	return obj, nil
}

// mutateChange and validateChange show a scale, not its parent, to admission if that is what was written.
func (w Writer) mutateChange(ctx context.Context, a attributes, obj, old api.Object) error {
	if w.IsScale() {
		return nil // its admission is part of next
	}
	return w.mutate(ctx, a, obj, old)
}

func (w Writer) validateChange(ctx context.Context, a attributes, obj, old api.Object) error {
	if w.IsScale() {
		return w.validate(ctx, a, w.scaleOf(obj), w.scaleOf(old))
	}
	return w.validate(ctx, a, obj, old)
}

// changed makes obj, which old is to become, ready to be stored.
func (w Writer) changed(ctx context.Context, a attributes, obj, old api.Object) error {
	if err := w.hasVersion(obj); err != nil {
		return err
	}
	if err := w.prepareUpdate(ctx, obj, old); err != nil {
		return err
	}
	// only now obj has what the client left out, and no more what it may not change
	fieldmanager.IgnoreTimestampOnly(obj, old)
	if err := w.validateChange(ctx, a, obj, old); err != nil {
		return err
	}
	return w.readBack(obj)
}

// prepareUpdate runs a change through the strategy of this endpoint. obj has its resource version settled.
func (w Writer) prepareUpdate(ctx context.Context, obj, old api.Object) error {
	if err := w.InNamespace(obj); err != nil { // admission may have moved it
		return err
	}
	s, kind := w.Strategy, w.groupKind(obj)
	obj.SetGeneration(old.GetGeneration())
	keepIdentity(obj, old)
	if s.PrepareUpdate != nil {
		s.PrepareUpdate(ctx, obj, old)
	}
	keepIdentity(obj, old)
	if errs := w.changeErrors(ctx, obj, old); len(errs) > 0 {
		return apierrors.NewInvalid(kind, obj.GetName(), errs)
	}
	if s.Warnings != nil {
		warn(ctx, s.Warnings(ctx, obj, old)...)
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// changeErrors are the faults of a change. Kinds tell those of the metadata again, as part of their own checks.
func (w Writer) changeErrors(ctx context.Context, obj, old api.Object) field.ErrorList {
	s := w.Strategy
	ofObject := validation.ValidateObjectMetaAccessor(obj, w.Kind.Namespaced, path.ValidatePathSegmentName, metadata)
	ofChange := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	errs := slices.Concat(ofObject, ofChange)
	finalizers := finalizerErrors(s, obj)
	ofChange = append(ofChange, finalizers...)
	if len(ofObject) > 0 || !namedAs(obj, w.validName()) { // else the same is found again: nothing
		ofObject = validation.ValidateObjectMetaAccessor(obj, w.Kind.Namespaced, w.validName(), metadata)
	}
	ofObject = append(ofObject, finalizers...)
	if s.ValidateAmong != nil {
		return append(errs, s.ValidateAmong(ctx, obj, old, api.MetaErrors{Object: ofObject, Change: ofChange})...)
	}
	switch s.Meta {
	case api.MetaChanges:
		errs = append(errs, ofChange...)
	case api.MetaObjects:
		errs = append(errs, ofObject...)
	case api.MetaAll:
		errs = slices.Concat(errs, ofChange, ofObject)
	case api.MetaAllInOrder:
		errs = slices.Concat(errs, ofObject, ofChange)
	}
	if s.ValidateUpdate != nil {
		errs = append(errs, s.ValidateUpdate(ctx, obj, old)...)
	}
	return errs
}

// readBack does to a custom resource what reading it from the store would, if there may be something in it that the
// schema doesn't want: an apply may set to null what may not be, and webhooks and policies bring in what they like.
// Nothing looks at that before, and admission sees it to the end.
func (w Writer) readBack(obj api.Object) error {
	if w.Kind.Custom == nil || !w.MayHaveUnknownFields {
		return nil
	}
	_, err := w.Version.Coerce(obj, false)
	return err
}

// finished tells whether nothing keeps the object from being removed once it is obj.
func (w Writer) finished(obj, old api.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 || w.held(obj) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

var errMoved = errors.New("the object changed meanwhile")

// removeAt removes the object if it is still what it was at a revision, and gives back what had been allocated for obj,
// which it was changed to. Another change may have been faster to do so.
func (w Writer) removeAt(ctx context.Context, revision int64, obj api.Object) error {
	_, err := w.Cache.Delete(ctx, w.key(), func(current *cache.Entry) error {
		if current.Revision != revision {
			return errMoved
		}
		return nil
	})
	if err == nil {
		w.release(ctx, obj)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeChanged removes the object at the revision that the change saw; what is answered is what the change made of it.
func (w Writer) removeChanged(ctx context.Context, ch Change, obj api.Object, revision int64) (*cache.Entry, error) {
	err := w.removeAt(ctx, revision, obj)
	switch {
	case errors.Is(err, errMoved):
		return w.replace(ctx, ch)
	case err != nil:
		return nil, err
	}
	return Unstored(obj), nil
}
