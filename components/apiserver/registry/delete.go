package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Outcomes of looking at an object that is to be deleted, besides a change that has to be written first.
var (
	errDeleteNow = errors.New("delete at once")
	errPending   = errors.New("deletion has begun already")
)

// Delete removes the object that the request names, and reports whether it is gone; else it waits for a grace period or
// for finalizers.
func (w Writer) Delete(ctx context.Context, options *metav1.DeleteOptions) (*cache.Entry, bool, error) {
	if err := w.CheckName(); err != nil {
		return nil, false, err
	}
	if err := w.Cache.Confirm(ctx, w.key()); err != nil {
		return nil, false, err
	}
	d := &deletion{Writer: w, options: options, admitted: map[string]bool{}}
	if IsDryRun(options.DryRun) {
		return d.dryRun(ctx)
	}
	e, err := d.begin(ctx)
	switch {
	case errors.Is(err, errPending):
		return e, false, nil
	case errors.Is(err, errDeleteNow):
		if len(e.Object.GetFinalizers()) > 0 {
			clear(d.admitted) // it loses them first, and is shown again
		}
	case err != nil:
		return nil, false, err
	case !d.removable(e.Object):
		return e, false, nil
	}
	return d.finish(ctx, e)
}

// deletion is what one request to delete has shown to admission.
type deletion struct {
	Writer
	options  *metav1.DeleteOptions
	admitted map[string]bool // by resource version: each state of the object is shown once
	period   *int64          // of grace, as it was shown last
}

// check gets the object as writes are worked on.
func (d *deletion) check(ctx context.Context, current *cache.Entry) error {
	if err := d.preconditions(d.options, current.Object); err != nil {
		return err
	}
	if d.Resource == namespaces {
		pin(d.options, current.Object)
		if current.Object.GetDeletionTimestamp() != nil && d.held(current.Object) {
			return errPending
		}
	}
	return d.admit(ctx, current)
}

// admit shows the object, and the options with the grace period that it gets. One that goes already isn't shown.
func (d *deletion) admit(ctx context.Context, current *cache.Entry) error {
	version := current.Object.GetResourceVersion()
	if d.admitted[version] {
		return nil
	}
	shown, obj := *d.options, current.Object
	shown.GracePeriodSeconds = cmp.Or(shown.GracePeriodSeconds, d.period)
	if d.Kind.Strategy.Grace != nil {
		obj = copyOf(obj) // on which the grace period is tried
	}
	if _, err := d.grace(ctx, obj, &shown); err != nil {
		return err
	}
	d.period = shown.GracePeriodSeconds
	a := attributes{operation: admission.Delete, options: &shown, dryRun: IsDryRun(shown.DryRun)}
	if err := d.mutate(ctx, a, nil, current.Object); err != nil {
		return err
	}
	if err := d.validate(ctx, a, nil, current.Object); err != nil {
		return err
	}
	d.admitted[version] = true
	return nil
}

// pin makes options mean this object and no later one of its name, as admission is to see of namespaces.
func pin(options *metav1.DeleteOptions, obj api.Object) {
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	if options.Preconditions.UID == nil {
		options.Preconditions.UID = new(obj.GetUID())
	}
}

// begin writes the mark of deletion and the finalizers that the propagation policy asks for, if any is needed.
// With errDeleteNow and errPending it returns the entry that was seen.
func (d *deletion) begin(ctx context.Context) (*cache.Entry, error) {
	var seen *cache.Entry
	e, err := d.Cache.Update(ctx, d.key(), d.Kind.TTL, func(current *cache.Entry) (api.Object, error) {
		seen = current
		current, err := d.ToWork(d.withLiveConversion(current))
		if err != nil {
			return nil, err
		}
		if err := d.check(ctx, current); err != nil {
			return nil, err
		}
		o := *d.options // the strategy fills in the grace period again for each state of the object
		return d.marked(ctx, current.Object, &o)
	})
	if errors.Is(err, errPending) || errors.Is(err, errDeleteNow) {
		return seen, err
	}
	return e, err
}

// marked is obj with its deletion begun; errDeleteNow if it needs no such mark.
func (d *deletion) marked(ctx context.Context, old api.Object, options *metav1.DeleteOptions) (api.Object, error) {
	obj := copyOf(old)
	graceful, err := d.grace(ctx, obj, options)
	if err != nil {
		return nil, err
	}
	finalizers := obj.GetFinalizers()
	first := d.markedFirst(old)
	asked, changed := d.collectorFinalizers(finalizers, options, first)
	if changed && !(d.Kind.Strategy.CollectedLater && first) {
		finalizers = asked
		obj.SetFinalizers(finalizers)
	}
	if graceful {
		if d.Kind.Strategy.Terminate != nil {
			d.Kind.Strategy.Terminate(obj)
		}
		return obj, nil
	}
	if len(finalizers) == 0 && !d.held(obj) && !first {
		return nil, errDeleteNow
	}
	d.mark(obj)
	return obj, nil
}

// grace begins or shortens a graceful deletion, and reports whether it did.
func (d *deletion) grace(ctx context.Context, obj api.Object, options *metav1.DeleteOptions) (bool, error) {
	if seconds := options.GracePeriodSeconds; seconds != nil && *seconds < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	strategy := d.Kind.Strategy.Grace
	if strategy == nil {
		return false, nil
	}
	if obj.GetDeletionTimestamp() != nil {
		return d.shortenGrace(obj, options)
	}
	if !strategy(ctx, obj, options) {
		return false, nil
	}
	if options.GracePeriodSeconds == nil {
		return false, apierrors.NewInternalError(errors.New("options.GracePeriodSeconds should not be nil"))
	}
	at := metav1.NewTime(d.now().Add(time.Duration(*options.GracePeriodSeconds) * time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(options.GracePeriodSeconds)
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	return true, nil
}

// shortenGrace moves the end of a deletion that has begun; it never moves it away.
func (d *deletion) shortenGrace(obj api.Object, options *metav1.DeleteOptions) (bool, error) {
	has := obj.GetDeletionGracePeriodSeconds()
	if has == nil || *has == 0 {
		return false, nil // a removal that was cut short
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *has {
		return false, errPending
	}
	period := *options.GracePeriodSeconds
	at := metav1.NewTime(obj.GetDeletionTimestamp().Add(time.Duration(period-*has) * time.Second))
	if now := d.registry.config.Clock.Now(); at.Time.Before(now) { // which is later than d.now(), within the second
		at = d.now()
		if period != 0 {
			period = 1 // clients that wait for the object must still see it end
		}
	}
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&period)
	return true, nil
}

// mark makes obj one that waits for its finalizers and for nothing else.
func (d *deletion) mark(obj api.Object) {
	now := d.now()
	first := obj.GetDeletionTimestamp() == nil
	if first || obj.GetDeletionTimestamp().After(now.Time) {
		obj.SetDeletionTimestamp(&now)
	}
	// What may hold itself (namespaces, definitions of custom resources) gets no grace period at first, and stays of
	// its generation.
	if !d.held(obj) && (!first || d.Kind.Strategy.HasSpecFinalizers == nil) {
		obj.SetDeletionGracePeriodSeconds(new(int64(0)))
		if first && obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	}
	if first && d.Kind.Strategy.Terminate != nil {
		d.Kind.Strategy.Terminate(obj)
	}
}

// removable tells whether an object whose deletion has begun can go.
func (d *deletion) removable(obj api.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	over := grace == nil && d.Kind.Strategy.HasSpecFinalizers == nil || grace != nil && *grace == 0
	return over && len(obj.GetFinalizers()) == 0 && !d.held(obj)
}

// markedFirst tells whether a deletion of the object only marks it, whatever holds it: the first one does of what may
// hold itself.
func (d *deletion) markedFirst(obj api.Object) bool {
	return d.Kind.Strategy.HasSpecFinalizers != nil && obj.GetDeletionTimestamp() == nil
}

// finish takes the object out of the store. Admission sees once more what was marked for it, as the object is another
// then.
func (d *deletion) finish(ctx context.Context, seen *cache.Entry) (*cache.Entry, bool, error) {
	e, err := d.Cache.Delete(ctx, d.key(), func(current *cache.Entry) error {
		moved := current.Revision != seen.Revision
		current, err := d.ToWork(d.withLiveConversion(current))
		switch {
		case err != nil:
		case moved:
			err = d.check(ctx, current)
		default:
			// Not check: the mark of deletion may have changed the resource version that the options ask for.
			err = d.admit(ctx, current)
		}
		switch {
		case errors.Is(err, errPending):
			return errMoved // the caller starts over
		case err != nil:
			return refusal{err}
		case moved && (len(current.Object.GetFinalizers()) > 0 || d.held(current.Object)):
			return errMoved
		}
		return nil
	})
	switch {
	case errors.Is(err, errMoved):
		return d.Delete(ctx, d.options)
	case apierrors.IsNotFound(err) && seen.Object.GetDeletionTimestamp() != nil:
		return seen, true, nil // another deletion was faster
	case err != nil:
		return nil, false, unrefused(err)
	}
	d.release(ctx, e.Object)
	return e, true, nil
}

// dryRun tells what Delete would do.
func (d *deletion) dryRun(ctx context.Context) (*cache.Entry, bool, error) {
	current, err := d.Cache.Get(ctx, d.key(), "")
	if err == nil {
		current, err = d.ToWork(d.withLiveConversion(current))
	}
	if err != nil {
		return nil, false, err
	}
	err = d.check(ctx, current)
	var obj api.Object
	if err == nil {
		obj, err = d.marked(ctx, current.Object, d.options)
	}
	switch {
	case errors.Is(err, errPending):
		return current, false, nil
	case errors.Is(err, errDeleteNow):
		return current, true, nil
	case err != nil:
		return nil, false, err
	}
	return Unstored(obj), d.removable(obj), nil
}

func (d *deletion) preconditions(options *metav1.DeleteOptions, obj api.Object) error {
	p := options.Preconditions
	if p == nil {
		return nil
	}
	if d.Kind.Strategy.StorePreconditions {
		return d.storePreconditions(p, obj)
	}
	as := schema.GroupResource{Group: d.Kind.Hub.Group, Resource: d.Kind.Name}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return apierrors.NewConflict(as, obj.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s)."+
				" The object might have been deleted and then recreated",
			*p.UID, obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(as, obj.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)."+
				" The object might have been modified",
			*p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// storePreconditions tells of what isn't met as the store does.
func (d *deletion) storePreconditions(p *metav1.Preconditions, obj api.Object) error {
	const unmet = "Precondition failed: %s in precondition: %s, %s in object meta: %s"
	if p.UID != nil && *p.UID != obj.GetUID() {
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(d.Resource, obj.GetName(), fmt.Errorf(unmet, "UID", *p.UID, "UID", obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		//lint:ignore ST1005 the text is upstream's
		return apierrors.NewConflict(d.Resource, obj.GetName(), fmt.Errorf(
			unmet, "ResourceVersion", *p.ResourceVersion, "ResourceVersion", obj.GetResourceVersion()))
	}
	return nil
}
