package registry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Create stores a new hub object of the request's namespace, which belongs to it, and records the manager of its
// fields.
func (w Writer) Create(
	ctx context.Context, obj api.Object, options *metav1.CreateOptions, manager string,
) (*cache.Entry, error) {
	WipeSystemFields(obj)
	DropDuplicateOwners(ctx, obj)
	w.Track(nil, obj, manager)
	return w.insert(ctx, obj, creation{options: options})
}

// creation is how an object is created.
type creation struct {
	options *metav1.CreateOptions
	// owns says that the managed fields are what the write is about: they aren't given up for an object that is too
	// large with them.
	owns bool
	// mayCreate is as in attributes.
	mayCreate func(ctx context.Context) error
}

// maxNames bounds how often a generated name that is taken is replaced by another.
const maxNames = 8

// insert takes a new object with its managed fields through admission and strategy into the store.
func (w Writer) insert(ctx context.Context, obj api.Object, how creation) (*cache.Entry, error) {
	if w.Kind.Custom != nil && w.Kind.Custom.Ending() {
		return nil, apierrors.NewForbidden(w.Resource, obj.GetName(), errEnding)
	}
	a := attributes{
		operation: admission.Create, options: how.options, dryRun: IsDryRun(how.options.DryRun), name: obj.GetName(),
		mayCreate: how.mayCreate,
	}
	if err := w.mutate(ctx, a, obj, nil); err != nil {
		return nil, err
	}
	dropDuplicateOwners(ctx, obj, duplicateOwnersAdmitted)
	generated := obj.GetGenerateName() != "" && obj.GetName() == ""
	for attempt := 1; ; attempt++ {
		next := obj
		if generated && attempt < maxNames {
			next = copyOf(obj) // what follows changes it, and may have to be done again
		}
		e, err := w.insertOnce(ctx, next, a)
		if !how.owns && isTooLarge(err) {
			next.SetManagedFields(nil)
			e, err = w.insertOnce(ctx, next, a)
		}
		if err == nil || !generated || !apierrors.IsAlreadyExists(err) || attempt == maxNames {
			return e, err
		}
	}
}

var errEnding = errors.New("create not allowed while custom resource definition is terminating")

// insertOnce does so, after mutating admission, with one name.
func (w Writer) insertOnce(ctx context.Context, obj api.Object, a attributes) (*cache.Entry, error) {
	w.fillSystemFields(obj)
	done, err := w.allocate(ctx, obj, nil, a.dryRun)
	if err != nil {
		return nil, err
	}
	e, err := w.insertAllocated(ctx, obj, a)
	if a.dryRun {
		done(api.NotStored)
	} else {
		done(outcomeOf(err))
	}
	return e, err
}

// fillSystemFields gives a new object what the system owns of its metadata.
func (w Writer) fillSystemFields(obj api.Object) {
	obj.SetUID(types.UID(uuid.NewUUID()))
	obj.SetCreationTimestamp(w.now())
	if base := obj.GetGenerateName(); base != "" && obj.GetName() == "" {
		obj.SetName(generateName(w.Kind, base))
	}
}

// Generated names end in a random suffix and fit a DNS label.
const (
	suffixLength    = 5
	maxGeneratePart = 63 - suffixLength
)

// generateName makes a name out of its beginning, for kinds of which such a thing can be a name.
func generateName(kind *api.Kind, base string) string {
	if kind.Strategy.NoGeneratedNames {
		return base
	}
	if len(base) > maxGeneratePart {
		base = base[:maxGeneratePart]
	}
	return base + rand.String(suffixLength)
}

// insertAllocated takes the object from its strategy to the store.
func (w Writer) insertAllocated(ctx context.Context, obj api.Object, a attributes) (*cache.Entry, error) {
	if err := w.hasVersion(obj); err != nil {
		return nil, err
	}
	if err := w.prepareCreate(ctx, obj); err != nil {
		return nil, err
	}
	if a.mayCreate != nil {
		if err := a.mayCreate(ctx); err != nil {
			return nil, err
		}
	}
	if err := w.validate(ctx, a, obj, nil); err != nil {
		return nil, err
	}
	if err := w.readBack(obj); err != nil {
		return nil, err
	}
	obj.SetSelfLink("") // which admission may have set, and nothing keeps
	return w.store(ctx, obj, a.dryRun)
}

// prepareCreate runs a new object through its strategy: what upstream does between admission's two halves.
func (w Writer) prepareCreate(ctx context.Context, obj api.Object) error {
	if err := w.InNamespace(obj); err != nil { // admission may have moved it
		return err
	}
	s := &w.Kind.Strategy
	if s.PrepareCreate != nil {
		s.PrepareCreate(ctx, obj)
	}
	if errs := w.createErrors(ctx, obj); len(errs) > 0 {
		return apierrors.NewInvalid(w.groupKind(obj), obj.GetName(), errs)
	}
	if s.Warnings != nil {
		warn(ctx, s.Warnings(ctx, obj, nil)...)
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// createErrors are the faults of a new object.
func (w Writer) createErrors(ctx context.Context, obj api.Object) field.ErrorList {
	s := &w.Kind.Strategy
	var errs field.ErrorList
	if s.Authorize != nil {
		errs = s.Authorize(ctx, obj)
	}
	if s.Meta != api.MetaNothing {
		errs = append(errs, validation.ValidateObjectMetaAccessor(obj, w.Kind.Namespaced, w.validName(), metadata)...)
		errs = append(errs, finalizerErrors(s, obj)...)
	}
	if s.Validate != nil {
		errs = append(errs, s.Validate(ctx, obj)...)
	}
	// What holds for all kinds, though they may allow more names.
	if len(errs) == 0 && (s.Meta == api.MetaNothing || !namedAs(obj, path.ValidatePathSegmentName)) {
		return validation.ValidateObjectMetaAccessor(obj, w.Kind.Namespaced, path.ValidatePathSegmentName, metadata)
	}
	return errs
}

// store writes a new object, or tells what that would do.
func (w Writer) store(ctx context.Context, obj api.Object, dryRun bool) (*cache.Entry, error) {
	key := w.Cache.Key(w.Namespace, obj.GetName())
	if dryRun {
		if e, err := w.Cache.Get(ctx, key, ""); err == nil {
			return nil, w.exists(obj, e.Object)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
		return w.unwritten(obj)
	}
	if given, err := (apistorage.APIObjectVersioner{}).ObjectResourceVersion(obj); err == nil && given != 0 {
		return nil, ClientFault("resourceVersion should not be set on objects to be created")
	}
	obj.SetResourceVersion("")
	var ttl cache.TTL
	if w.Kind.TTL != nil {
		ttl = w.Kind.TTL(obj)
	}
	e, err := w.Cache.Create(ctx, key, obj, ttl)
	if apierrors.IsAlreadyExists(err) {
		// a deletion may have been answered that the cache doesn't know of yet
		current, err := w.Cache.Get(ctx, key, "")
		if err != nil {
			return nil, w.exists(obj, nil)
		}
		return nil, w.exists(obj, current.Object)
	}
	return e, err
}

// exists is the answer to a create that meets an object of that name, which may be gone (nil) meanwhile. Of an object
// that had a name to generate one from it says that this failed, though it was not tried with a name that is given.
func (ep *Endpoint) exists(obj, current api.Object) error {
	err := apierrors.NewAlreadyExists(ep.Resource, obj.GetName())
	if obj.GetGenerateName() != "" {
		hub := schema.GroupResource{Group: ep.Kind.Hub.Group, Resource: ep.Kind.Resource}
		err = apierrors.NewGenerateNameConflict(hub, obj.GetName(), 1)
	}
	if current != nil && current.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", err.ErrStatus.Message)
	}
	return err
}

// outcomeOf tells what a write's error says of what is stored.
func outcomeOf(err error) api.Outcome {
	var unknown *cache.OutcomeUnknownError
	switch {
	case err == nil:
		return api.Stored
	case errors.As(err, &unknown):
		return api.Unsure
	}
	return api.NotStored
}
