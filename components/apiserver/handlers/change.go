package handlers

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apistorage "k8s.io/apiserver/pkg/storage"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// change is a write to an object that may exist: what update, patch and apply have in common.
type change struct {
	// next makes the wanted hub object from the current entry. It is called again when another writer was faster, and
	// must return a fresh object each time. Its managed fields are already booked.
	next func(current *cache.Entry) (kinds.Object, error)
	// first makes the object if there is none; nil means that it must exist.
	first func() (kinds.Object, error)
	// create is what the creation is told as.
	create *metav1.CreateOptions
	// options are those of the verb, for admission.
	options runtime.Object
	dryRun  []string
	// uid is the identity that the current object must have, "" for any.
	uid types.UID
	// owns says that the managed fields are what the change is about: they aren't given up for an object that is too large with them.
	owns bool
	// bare leaves the managed fields out.
	bare bool
}

// maxRaces bounds the turns between finding an object gone and finding it there again.
const maxRaces = 5

// run applies the change and tells whether it created the object.
func (c *call) run(ch change) (e *cache.Entry, created bool, err error) {
	c.steps.Reach("About to store object in database")
	defer func() { c.steps.Reach(written(err)) }()
	for range maxRaces {
		e, err = c.replace(ch)
		if !ch.owns && isTooLarge(err) {
			ch.bare = true
			e, err = c.replace(ch)
		}
		if !apierrors.IsNotFound(err) {
			return e, false, unrefused(err)
		}
		switch {
		case ch.first == nil:
			return nil, false, apierrors.NewNotFound(c.resource, c.name)
		case ch.uid != "":
			return nil, false, c.otherUID(ch.uid, "", isDryRun(ch.dryRun))
		}
		e, err = c.insertFirst(ch)
		if !apierrors.IsAlreadyExists(err) {
			return e, true, err
		}
	}
	return e, false, err
}

func (c *call) insertFirst(ch change) (*cache.Entry, error) {
	obj, err := ch.first()
	if err != nil {
		return nil, err
	}
	if err := c.sameName(obj); err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	return c.insert(obj, ch.create, ch.dryRun, ch.owns)
}

// isTooLarge tells whether the store did not take an object for its size.
func isTooLarge(err error) bool {
	var large *cache.TooLargeError
	return errors.As(err, &large)
}

// otherUID is the conflict of a change that names another identity than the object has; "" if there is none.
// A dry run knows keys without the prefix of all.
func (c *call) otherUID(given, has types.UID, dryRun bool) error {
	key := c.key()
	if i := strings.Index(key, "/"+c.kind.Prefix+"/"); dryRun && i > 0 {
		key = key[i:]
	}
	return apierrors.NewConflict(c.resource, c.name, apistorage.NewInvalidObjError(key, fmt.Sprintf(
		"Precondition failed: UID in precondition: %s, UID in object meta: %s", given, has)))
}

// mayCreate asks whether the user may create, if that is what a change of something that doesn't exist turned into.
func (c *call) mayCreate() error {
	if c.api.config.Authorizer == nil || c.verb == "create" {
		return nil
	}
	a := c.asVerb("create")
	decision, reason, err := c.api.config.Authorizer.Authorize(c.ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return answer.Forbidden(a, reason)
}

// asVerb is the request as authorizers see it, with another verb.
func (c *call) asVerb(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: c.user(), Verb: verb, Namespace: c.info.Namespace, APIGroup: c.info.APIGroup, APIVersion: c.info.APIVersion,
		Resource: c.info.Resource, Subresource: c.info.Subresource, Name: c.info.Name, ResourceRequest: true, Path: c.info.Path,
	}
}

// errRemove says that a change leaves an object behind that only waited for it to go.
var errRemove = errors.New("the object is to be removed")

// refusal is why what is there isn't changed or removed. Whatever it says, a webhook may call it NotFound, it doesn't say that nothing
// is there.
type refusal struct{ error }

// unrefused is an error as the client gets it.
func unrefused(err error) error {
	if refused, ok := err.(refusal); ok {
		return refused.error
	}
	return err
}

// replace changes an object that exists.
func (c *call) replace(ch change) (*cache.Entry, error) {
	if err := c.hasKey(); err != nil {
		return nil, err
	}
	a := attributes{operation: admission.Update, options: ch.options, dryRun: isDryRun(ch.dryRun)}
	done := func(kinds.Outcome) {}
	var removed, old kinds.Object
	var removedAt int64
	mutate := func(current *cache.Entry) (kinds.Object, error) {
		done(kinds.NotStored)
		done = func(kinds.Outcome) {}
		current, err := c.toWork(current)
		if err != nil {
			return nil, refusal{err}
		}
		obj, err := c.wanted(ch, a, current)
		if err != nil {
			return nil, refusal{err}
		}
		if done, err = c.allocate(obj, current.Object, a.dryRun); err != nil {
			return nil, refusal{err}
		}
		if err := c.changed(a, obj, current.Object); err != nil {
			return nil, refusal{err}
		}
		if c.finished(obj, current.Object) {
			removed, removedAt = obj, current.Revision
			return nil, errRemove
		}
		old = current.Object
		return obj, nil
	}
	if a.dryRun {
		defer func() { done(kinds.NotStored) }()
		current, err := c.cache.Get(c.ctx, c.key(), "")
		if err != nil {
			return nil, err
		}
		obj, err := mutate(current)
		if errors.Is(err, errRemove) {
			return unstored(removed), nil
		}
		if err != nil {
			return nil, err
		}
		return c.unwritten(obj)
	}
	e, err := c.cache.Update(c.ctx, c.key(), c.kind.TTL, mutate)
	done(outcomeOf(err))
	if errors.Is(err, errRemove) {
		return c.removeChanged(ch, removed, removedAt)
	}
	if err == nil && c.strategy.Stored != nil {
		c.strategy.Stored(e.Object, old)
	}
	return e, err
}

// wanted is the object that a change makes of the current one, before the kind's strategy has seen it.
func (c *call) wanted(ch change, a attributes, current *cache.Entry) (kinds.Object, error) {
	old := current.Object
	if ch.uid != "" && ch.uid != old.GetUID() {
		return nil, c.otherUID(ch.uid, old.GetUID(), isDryRun(ch.dryRun))
	}
	obj, err := ch.next(current)
	if err != nil {
		return nil, err
	}
	if err := c.sameName(obj); err != nil {
		return nil, err
	}
	if err := c.mutateChange(a, obj, old); err != nil {
		return nil, err
	}
	c.dropDuplicateOwners(obj, duplicateOwnersAdmitted)
	if ch.bare {
		obj.SetManagedFields(nil)
	}
	if err := c.settleVersion(obj, old); err != nil {
		return nil, err
	}
	return obj, nil
}

// changed makes obj, which old is to become, ready to be stored.
func (c *call) changed(a attributes, obj, old kinds.Object) error {
	if err := c.hasVersion(obj); err != nil {
		return err
	}
	if err := c.prepareUpdate(obj, old); err != nil {
		return err
	}
	keepTimes(obj, old) // not before: only now obj has what the client left out, and no more what it may not change
	if err := c.validateChange(a, obj, old); err != nil {
		return err
	}
	return c.readBack(obj)
}

// readBack does to a custom resource what reading it from the store would, if there may be something in it that the schema doesn't
// want: an apply may set to null what may not be, and webhooks and policies bring in what they like. Nothing looks at that before, and
// admission sees it to the end.
func (c *call) readBack(obj kinds.Object) error {
	applied := types.PatchType(c.media)
	if c.kind.Custom == nil || !c.strange && applied != types.ApplyYAMLPatchType && applied != types.ApplyCBORPatchType {
		return nil
	}
	_, err := c.version.Coerce(obj, false)
	return err
}

// finished tells whether nothing keeps the object from being removed once it is obj.
func (c *call) finished(obj, old kinds.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 || c.held(obj) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func (c *call) held(obj kinds.Object) bool {
	return c.kind.Strategy.Held != nil && c.kind.Strategy.Held(obj)
}

var errMoved = errors.New("the object changed meanwhile")

// removeAt removes the object if it is still what it was at a revision, and gives back what had been allocated for obj, which it was
// changed to. Another change may have been faster to do so.
func (c *call) removeAt(revision int64, obj kinds.Object) error {
	_, err := c.cache.Delete(c.ctx, c.key(), func(current *cache.Entry) error {
		if current.Revision != revision {
			return errMoved
		}
		return nil
	})
	if err == nil {
		c.release(obj)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeChanged removes the object at the revision that the change saw; what is answered is what the change made of it.
func (c *call) removeChanged(ch change, obj kinds.Object, revision int64) (*cache.Entry, error) {
	err := c.removeAt(revision, obj)
	switch {
	case errors.Is(err, errMoved):
		return c.replace(ch)
	case err != nil:
		return nil, err
	}
	return unstored(obj), nil
}

// release gives back what a removed object had allocated.
func (c *call) release(obj kinds.Object) {
	if c.kind.Strategy.Allocate == nil {
		return
	}
	if done, err := c.kind.Strategy.Allocate(c.ctx, nil, obj, false); err == nil && done != nil {
		done(kinds.Stored)
	}
}

// mutateChange and validateChange show a scale, not its parent, to admission if that is what was written.
func (c *call) mutateChange(a attributes, obj, old kinds.Object) error {
	if c.sub != nil && c.sub.Scale != nil {
		return nil // its admission is part of next
	}
	return c.mutate(a, obj, old)
}

func (c *call) validateChange(a attributes, obj, old kinds.Object) error {
	if c.sub != nil && c.sub.Scale != nil {
		return c.validate(c.ctx, a, c.scaleOf(obj), c.scaleOf(old))
	}
	return c.validate(c.ctx, a, obj, old)
}
