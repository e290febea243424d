package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// create stores a new object, or, for virtual kinds, answers it.
func (c *call) create() error {
	if custom := c.kind.Custom; custom != nil && custom.Settle != nil {
		custom.Settle(c.ctx)
	}
	body, media, err := c.typedBody()
	if err != nil {
		return err
	}
	o, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.objectOf(body, media, o.FieldValidation)
	if err != nil {
		return err
	}
	c.steps.Reach("Conversion done")
	c.auditRequest(obj)
	if err := c.inNamespace(obj); err != nil {
		return err
	}
	wipe(obj)
	if c.kind.Answer != nil {
		return c.answered(obj, o)
	}
	c.dropDuplicateOwners(obj, duplicateOwners)
	obj = c.track(nil, obj, o.FieldManager)
	c.steps.Reach("About to store object in database")
	e, err := c.insert(obj, o, o.DryRun, false)
	c.steps.Reach(written(err))
	if err != nil {
		return err
	}
	return c.stored(http.StatusCreated, e)
}

// written is the step that a write has reached.
func written(err error) string {
	if err != nil {
		return "Write to database call failed"
	}
	return "Write to database call succeeded"
}

// ending refuses a new object of a definition that is being deleted.
func (c *call) ending(obj kinds.Object) error {
	if c.kind.Custom != nil && c.kind.Custom.Ending() {
		return apierrors.NewForbidden(c.resource, obj.GetName(), errEnding)
	}
	return nil
}

var errEnding = errors.New("create not allowed while custom resource definition is terminating")

// maxNames bounds how often a generated name that is taken is replaced by another.
const maxNames = 8

// insert takes a new hub object through admission and strategy into the store: without its managed fields if it is too large with
// them, unless they are what the write is about (owns).
func (c *call) insert(obj kinds.Object, options *metav1.CreateOptions, dryRun []string, owns bool) (*cache.Entry, error) {
	if err := c.ending(obj); err != nil {
		return nil, err
	}
	a := attributes{operation: admission.Create, options: options, dryRun: isDryRun(dryRun), name: obj.GetName()}
	if err := c.mutate(a, obj, nil); err != nil {
		return nil, err
	}
	c.dropDuplicateOwners(obj, duplicateOwnersAdmitted)
	generated := obj.GetGenerateName() != "" && obj.GetName() == ""
	for attempt := 1; ; attempt++ {
		next := obj
		if generated && attempt < maxNames {
			next = copyOf(obj) // what follows changes it, and may have to be done again
		}
		e, err := c.insertOnce(next, a)
		if !owns && isTooLarge(err) {
			next.SetManagedFields(nil)
			e, err = c.insertOnce(next, a)
		}
		if err == nil || !generated || !apierrors.IsAlreadyExists(err) || attempt == maxNames {
			return e, err
		}
	}
}

func (c *call) insertOnce(obj kinds.Object, a attributes) (*cache.Entry, error) {
	c.birth(obj)
	done, err := c.allocate(obj, nil, a.dryRun)
	if err != nil {
		return nil, err
	}
	e, err := c.insertAllocated(obj, a)
	done(outcomeOf(err))
	return e, err
}

func (c *call) insertAllocated(obj kinds.Object, a attributes) (*cache.Entry, error) {
	if err := c.hasVersion(obj); err != nil {
		return nil, err
	}
	if err := c.prepareCreate(obj); err != nil {
		return nil, err
	}
	if err := c.mayCreate(); err != nil {
		return nil, err
	}
	if err := c.validate(c.ctx, a, obj, nil); err != nil {
		return nil, err
	}
	if err := c.readBack(obj); err != nil {
		return nil, err
	}
	obj.SetSelfLink("") // which admission may have set, and nobody keeps
	key := c.cache.Key(c.namespace, obj.GetName())
	if a.dryRun {
		if e, err := c.cache.Get(c.ctx, key, ""); err == nil {
			return nil, c.exists(obj, e.Object)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
		return c.unwritten(obj)
	}
	if err := unversioned(obj); err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	e, err := c.cache.Create(c.ctx, key, obj, c.ttl(obj))
	if apierrors.IsAlreadyExists(err) {
		current, err := c.cache.Get(c.ctx, key, "") // a deletion may have been answered that the cache doesn't know of yet
		if err != nil {
			return nil, c.exists(obj, nil)
		}
		return nil, c.exists(obj, current.Object)
	}
	return e, err
}

// exists is the answer to a create that meets an object of that name, which may be gone (nil) meanwhile. Of an object that had a name to
// generate one from it says that this failed, though it was not tried with a name that is given.
func (c *call) exists(obj, current kinds.Object) error {
	err := apierrors.NewAlreadyExists(c.resource, obj.GetName())
	if obj.GetGenerateName() != "" {
		err = apierrors.NewGenerateNameConflict(schema.GroupResource{Group: c.kind.Hub.Group, Resource: c.kind.Resource}, obj.GetName(), 1)
	}
	if current != nil && current.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", err.ErrStatus.Message)
	}
	return err
}

func (c *call) ttl(obj kinds.Object) cache.TTL {
	if c.kind.TTL == nil {
		return 0
	}
	return c.kind.TTL(obj)
}

// outcomeOf tells what a write's error says of what is stored.
func outcomeOf(err error) kinds.Outcome {
	var unsure *cache.UnsureError
	switch {
	case err == nil:
		return kinds.Stored
	case errors.As(err, &unsure):
		return kinds.Unsure
	}
	return kinds.NotStored
}

// allocate takes what the object needs to be unique; done is never nil.
func (c *call) allocate(obj, old kinds.Object, dryRun bool) (done func(kinds.Outcome), err error) {
	if c.strategy.Allocate == nil {
		return func(kinds.Outcome) {}, nil
	}
	done, err = c.strategy.Allocate(c.ctx, obj, old, dryRun)
	if done == nil {
		done = func(kinds.Outcome) {}
	}
	return done, err
}

// What is told of duplicate owner references: in what the client sent, and in what admission made of it.
const (
	duplicateOwners         = ".metadata.ownerReferences contains duplicate entries; " + duplicatesGo
	duplicateOwnersAdmitted = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; " + duplicatesGo
	duplicatesGo            = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %s"
)

// dropDuplicateOwners keeps the first of owner references that are the same, and says so.
func (c *call) dropDuplicateOwners(obj metav1.Object, format string) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var out []metav1.OwnerReference
	var dropped []string
	for _, ref := range refs {
		if slices.ContainsFunc(out, func(o metav1.OwnerReference) bool { return o.UID == ref.UID && reflect.DeepEqual(o, ref) }) {
			dropped = append(dropped, string(ref.UID))
			continue
		}
		out = append(out, ref)
	}
	if len(dropped) > 0 {
		c.warn([]string{fmt.Sprintf(format, strings.Join(dropped, ", "))})
		obj.SetOwnerReferences(out)
	}
}
