package handlers

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// delete removes an object, or begins to.
func (c *call) delete() error {
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	c.steps.Reach("About to delete object from database")
	e, removed, err := c.remove(o)
	if err != nil {
		return c.missing(err)
	}
	c.steps.Reach("Object deleted from database")
	if removed && !c.kind.Strategy.ReturnDeleted {
		return c.success(http.StatusOK, &metav1.StatusDetails{
			Name: e.Object.GetName(), Group: c.resource.Group, Kind: c.resource.Resource, UID: e.Object.GetUID(),
		})
	}
	code := http.StatusOK
	if !removed && o.OrphanDependents != nil && !*o.OrphanDependents {
		code = http.StatusAccepted
	}
	return c.entry(code, e)
}

// deleteOptions come in the body, or else in the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(body) == 0 {
		o, err = readQuery(c, func(q *url.Values, o *metav1.DeleteOptions) error {
			return metav1.Convert_url_Values_To_v1_DeleteOptions(q, o, nil)
		})
	} else {
		err = c.decodeDeleteOptions(body, o)
	}
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}
	// It is of a feature that is off (AllowUnsafeMalformedObjectDeletion, alpha): as with upstream, it is not there.
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(o)); err != nil {
		return nil, err
	}
	if text := c.kind.Strategy.OrphanWarning; text != "" && o.PropagationPolicy == nil && o.OrphanDependents == nil {
		c.warn([]string{text})
	}
	return o, nil
}

// internalDeleteOptions is how upstream's audit events call the options, whatever the client called them.
var internalDeleteOptions = schema.GroupVersionKind{Group: metav1.GroupName, Version: runtime.APIVersionInternal, Kind: "DeleteOptions"}

// decodeDeleteOptions takes them in any group and version: clients send those of the object, custom ones too.
func (c *call) decodeDeleteOptions(body []byte, o *metav1.DeleteOptions) error {
	media, err := negotiate.Body(c.r, c.api.forms.media...)
	if err != nil {
		return err
	}
	info, _ := runtime.SerializerInfoForMediaType(c.api.options.SupportedMediaTypes(), media.String())
	want := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "DeleteOptions"}
	decoder := c.api.options.DecoderToVersion(info.Serializer, want.GroupVersion())
	if got, _, err := decoder.Decode(body, &want, o); err != nil {
		return apierrors.NewBadRequest(err.Error())
	} else if got != o {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	c.auditBody(o, internalDeleteOptions)
	return nil
}

// Outcomes of looking at an object that is to be deleted, besides a change that has to be written first.
var (
	errDeleteNow = errors.New("delete at once")
	errPending   = errors.New("deletion has begun already")
)

// remove deletes the object, and reports whether it is gone; else it waits for a grace period or for finalizers.
func (c *call) remove(options *metav1.DeleteOptions) (*cache.Entry, bool, error) {
	if err := c.hasKey(); err != nil {
		return nil, false, err
	}
	if err := c.cache.Confirm(c.ctx, c.key()); err != nil {
		return nil, false, err
	}
	d := &deletion{call: c, options: options, admitted: map[string]bool{}}
	if isDryRun(options.DryRun) {
		return c.removeDry(options, d.check)
	}
	e, err := c.beginRemoval(options, d.check)
	switch {
	case errors.Is(err, errPending):
		return e, false, nil
	case errors.Is(err, errDeleteNow):
		if len(e.Object.GetFinalizers()) > 0 {
			clear(d.admitted) // it loses them first, and is shown again
		}
	case err != nil:
		return nil, false, err
	case !c.removable(e.Object):
		return e, false, nil
	}
	return c.finishRemoval(e, d)
}

// deletion is what one request to delete has shown to admission.
type deletion struct {
	*call
	options  *metav1.DeleteOptions
	admitted map[string]bool // by resource version: each state of the object is shown once
	period   *int64          // of grace, as it was shown last
}

// check gets the object as writes are worked on.
func (d *deletion) check(current *cache.Entry) error {
	if err := d.preconditions(d.options, current.Object); err != nil {
		return err
	}
	if d.resource == namespaces {
		pin(d.options, current.Object)
		if current.Object.GetDeletionTimestamp() != nil && d.held(current.Object) {
			return errPending
		}
	}
	return d.admit(current)
}

// admit shows the object, and the options with the grace period that it gets. One that goes already isn't shown.
func (d *deletion) admit(current *cache.Entry) error {
	version := current.Object.GetResourceVersion()
	if d.admitted[version] {
		return nil
	}
	shown, obj := *d.options, current.Object
	shown.GracePeriodSeconds = cmp.Or(shown.GracePeriodSeconds, d.period)
	if d.kind.Strategy.Grace != nil {
		obj = copyOf(obj) // on which the grace period is tried
	}
	if _, err := d.grace(obj, &shown); err != nil {
		return err
	}
	d.period = shown.GracePeriodSeconds
	a := attributes{operation: admission.Delete, options: &shown, dryRun: isDryRun(shown.DryRun)}
	if err := d.mutate(a, nil, current.Object); err != nil {
		return err
	}
	if err := d.validate(d.ctx, a, nil, current.Object); err != nil {
		return err
	}
	d.admitted[version] = true
	return nil
}

// pin makes options mean this object and no later one of its name, as admission is to see of namespaces.
func pin(options *metav1.DeleteOptions, obj kinds.Object) {
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	if options.Preconditions.UID == nil {
		options.Preconditions.UID = new(obj.GetUID())
	}
}

// beginRemoval writes the mark of deletion and the finalizers that the propagation policy asks for, if any is needed.
// With errDeleteNow and errPending it returns the entry that was seen.
func (c *call) beginRemoval(options *metav1.DeleteOptions, check func(*cache.Entry) error) (*cache.Entry, error) {
	var seen *cache.Entry
	e, err := c.cache.Update(c.ctx, c.key(), c.kind.TTL, func(current *cache.Entry) (kinds.Object, error) {
		seen = current
		current, err := c.toWork(c.anew(current))
		if err != nil {
			return nil, err
		}
		if err := check(current); err != nil {
			return nil, err
		}
		o := *options // the strategy fills in the grace period, anew for each state of the object
		return c.marked(current.Object, &o)
	})
	if errors.Is(err, errPending) || errors.Is(err, errDeleteNow) {
		return seen, err
	}
	return e, err
}

// marked is obj with its deletion begun; errDeleteNow if it needs no such mark.
func (c *call) marked(old kinds.Object, options *metav1.DeleteOptions) (kinds.Object, error) {
	obj := copyOf(old)
	graceful, err := c.grace(obj, options)
	if err != nil {
		return nil, err
	}
	finalizers := obj.GetFinalizers()
	first := c.markedFirst(old)
	if asked, changed := c.collectorFinalizers(finalizers, options, first); changed && !(c.kind.Strategy.CollectedLater && first) {
		finalizers = asked
		obj.SetFinalizers(finalizers)
	}
	if graceful {
		if c.kind.Strategy.Terminate != nil {
			c.kind.Strategy.Terminate(obj)
		}
		return obj, nil
	}
	if len(finalizers) == 0 && !c.held(obj) && !first {
		return nil, errDeleteNow
	}
	c.mark(obj)
	return obj, nil
}

// grace begins or shortens a graceful deletion, and reports whether it did.
func (c *call) grace(obj kinds.Object, options *metav1.DeleteOptions) (bool, error) {
	if seconds := options.GracePeriodSeconds; seconds != nil && *seconds < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	strategy := c.kind.Strategy.Grace
	if strategy == nil {
		return false, nil
	}
	if obj.GetDeletionTimestamp() != nil {
		return c.shortenGrace(obj, options)
	}
	if !strategy(c.ctx, obj, options) {
		return false, nil
	}
	if options.GracePeriodSeconds == nil {
		return false, apierrors.NewInternalError(errors.New("options.GracePeriodSeconds should not be nil"))
	}
	at := metav1.NewTime(c.now().Add(time.Duration(*options.GracePeriodSeconds) * time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(options.GracePeriodSeconds)
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	return true, nil
}

// shortenGrace moves the end of a deletion that has begun; it never moves it away.
func (c *call) shortenGrace(obj kinds.Object, options *metav1.DeleteOptions) (bool, error) {
	has := obj.GetDeletionGracePeriodSeconds()
	if has == nil || *has == 0 {
		return false, nil // a removal that was cut short
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *has {
		return false, errPending
	}
	period := *options.GracePeriodSeconds
	at := metav1.NewTime(obj.GetDeletionTimestamp().Add(time.Duration(period-*has) * time.Second))
	if now := c.api.config.Clock.Now(); at.Time.Before(now) { // which is later than c.now(), within the second
		at = c.now()
		if period != 0 {
			period = 1 // who waits for the object must still see it end
		}
	}
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&period)
	return true, nil
}

// mark makes obj one that waits for its finalizers and for nothing else.
func (c *call) mark(obj kinds.Object) {
	now := c.now()
	first := obj.GetDeletionTimestamp() == nil
	if first || obj.GetDeletionTimestamp().After(now.Time) {
		obj.SetDeletionTimestamp(&now)
	}
	// What may hold itself (namespaces, definitions of custom resources) gets no grace period at first, and stays of its generation.
	if !c.held(obj) && (!first || c.kind.Strategy.Held == nil) {
		obj.SetDeletionGracePeriodSeconds(new(int64(0)))
		if first && obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	}
	if first && c.kind.Strategy.Terminate != nil {
		c.kind.Strategy.Terminate(obj)
	}
}

// removable tells whether an object whose deletion has begun can go.
func (c *call) removable(obj kinds.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return len(obj.GetFinalizers()) == 0 && !c.held(obj) && (grace == nil && c.kind.Strategy.Held == nil || grace != nil && *grace == 0)
}

// markedFirst tells whether a deletion of the object only marks it, whatever holds it: the first one does of what may hold itself.
func (c *call) markedFirst(obj kinds.Object) bool {
	return c.kind.Strategy.Held != nil && obj.GetDeletionTimestamp() == nil
}

// finishRemoval takes the object out of the store. Admission sees once more what was marked for it, as the object is another then.
func (c *call) finishRemoval(seen *cache.Entry, d *deletion) (*cache.Entry, bool, error) {
	e, err := c.cache.Delete(c.ctx, c.key(), func(current *cache.Entry) error {
		moved := current.Revision != seen.Revision
		current, err := c.toWork(c.anew(current))
		switch {
		case err != nil:
		case moved:
			err = d.check(current)
		default:
			err = d.admit(current) // the mark of deletion may have changed the resource version that the options ask for
		}
		switch {
		case errors.Is(err, errPending):
			return errMoved // to be looked at anew
		case err != nil:
			return refusal{err}
		case moved && (len(current.Object.GetFinalizers()) > 0 || c.held(current.Object)):
			return errMoved
		}
		return nil
	})
	switch {
	case errors.Is(err, errMoved):
		return c.remove(d.options)
	case apierrors.IsNotFound(err) && seen.Object.GetDeletionTimestamp() != nil:
		return seen, true, nil // another deletion was faster
	case err != nil:
		return nil, false, unrefused(err)
	}
	c.release(e.Object)
	return e, true, nil
}

// removeDry tells what remove would do.
func (c *call) removeDry(options *metav1.DeleteOptions, check func(*cache.Entry) error) (*cache.Entry, bool, error) {
	current, err := c.cache.Get(c.ctx, c.key(), "")
	if err == nil {
		current, err = c.toWork(c.anew(current))
	}
	if err != nil {
		return nil, false, err
	}
	err = check(current)
	var obj kinds.Object
	if err == nil {
		obj, err = c.marked(current.Object, options)
	}
	switch {
	case errors.Is(err, errPending):
		return current, false, nil
	case errors.Is(err, errDeleteNow):
		return current, true, nil
	case err != nil:
		return nil, false, err
	}
	return unstored(obj), c.removable(obj), nil
}

func (c *call) preconditions(options *metav1.DeleteOptions, obj kinds.Object) error {
	p := options.Preconditions
	if p == nil {
		return nil
	}
	if c.kind.Strategy.StorePreconditions {
		return c.storePreconditions(p, obj)
	}
	as := schema.GroupResource{Group: c.kind.Hub.Group, Resource: c.kind.Name}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return apierrors.NewConflict(as, obj.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated",
			*p.UID, obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(as, obj.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified",
			*p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// storePreconditions tells of what isn't met as the store does.
func (c *call) storePreconditions(p *metav1.Preconditions, obj kinds.Object) error {
	const unmet = "Precondition failed: %s in precondition: %s, %s in object meta: %s"
	if p.UID != nil && *p.UID != obj.GetUID() {
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(c.resource, obj.GetName(), fmt.Errorf(unmet, "UID", *p.UID, "UID", obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(c.resource, obj.GetName(), fmt.Errorf(unmet, "ResourceVersion", *p.ResourceVersion, "ResourceVersion", obj.GetResourceVersion()))
	}
	return nil
}
