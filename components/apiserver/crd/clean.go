package crd

import (
	"context"
	"maps"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Pauses between looks at objects that wait for their finalizers, and between passes after a failure.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	retryPause = time.Second
	// Cleanings that failed are tried again after upstream's times, each twice the one before.
	firstRetry = 5 * time.Millisecond
	maxRetry   = 1000 * time.Second
	// maxWait is for how long objects are waited for until the definition says that they don't go.
	maxWait = time.Minute
)

// cleaning is what is being done, or was tried, to remove the objects of a definition; guarded by Manager.mu.
type cleaning struct {
	running    bool
	generation int64 // of the definition
	retry      time.Duration
	notBefore  time.Time // unless the definition changes: its status does each time
}

// failed tells when to try again.
func (c *cleaning) failed(now time.Time) time.Duration {
	c.retry = min(max(2*c.retry, firstRetry), maxRetry)
	c.notBefore = now.Add(c.retry)
	return c.retry
}

// cleanAll removes the objects of the definitions that are being deleted. It is called with m.mu held.
func (m *Manager) cleanAll(ctx context.Context, crds []*definition) {
	ending := map[types.UID]bool{}
	for _, crd := range crds {
		if crd.DeletionTimestamp != nil &&
			apihelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer) {
			ending[crd.UID] = true
			m.clean(ctx, crd)
		}
	}
	maps.DeleteFunc(m.cleanings, func(uid types.UID, c *cleaning) bool { return !c.running && !ending[uid] })
}

// clean removes, in the background, all objects of a definition that is being deleted, and then the definition. It is
// called with m.mu held.
func (m *Manager) clean(ctx context.Context, crd *definition) {
	c := m.cleanings[crd.UID]
	if c == nil {
		c = &cleaning{}
		m.cleanings[crd.UID] = c
	}
	if c.running || c.generation == crd.Generation && m.config.Clock.Now().Before(c.notBefore) {
		return
	}
	c.running, c.generation = true, crd.Generation
	var row *api.Kind // nil if nothing was ever served
	if e := m.resources[crd.UID]; e != nil {
		row = e.kind
	}
	m.work.Go(func() {
		err := m.cleanUp(ctx, crd, row)
		m.mu.Lock()
		defer m.mu.Unlock()
		c.running = false
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Failed to delete custom resources of definition; retrying", "definition",
			crd.Name)
		m.wakeLater(ctx, c.failed(m.config.Clock.Now()))
	})
}

func (m *Manager) wakeLater(ctx context.Context, pause time.Duration) {
	later := m.config.Clock.After(pause)
	m.work.Go(func() {
		select {
		case <-ctx.Done():
		case <-later:
			m.loop.Wake()
		}
	})
}

// finalizeError is the reason why custom resources could not be deleted.
type finalizeError struct {
	reason, what string
	err          error
}

func (s *finalizeError) Error() string { return s.what + ": " + s.err.Error() }
func (s *finalizeError) Unwrap() error { return s.err }

func (m *Manager) cleanUp(ctx context.Context, crd *definition, row *api.Kind) error {
	started := condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress",
		Message: "CustomResource deletion is in progress",
	}
	if err := m.note(ctx, crd, started, false); err != nil {
		return err
	}
	c := condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: "InstanceDeletionCompleted",
		Message: "removed all instances",
	}
	switch {
	case row != nil && m.config.Shadows(row):
		c.Reason, c.Message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
	case row == nil || !established(crd):
		c.Reason, c.Message = "NeverEstablished", "resource was never established"
	default:
		if err := m.removeAll(ctx, row); err != nil {
			failed := started
			failed.Reason, failed.Message = err.reason, err.Error()
			_ = m.note(ctx, crd, failed, false) // what counts is the failure before
			return err
		}
	}
	return m.note(ctx, crd, c, true)
}

// removeAll deletes all objects, and waits until they are gone.
func (m *Manager) removeAll(ctx context.Context, row *api.Kind) *finalizeError {
	all, err := m.config.List(ctx, row)
	if err != nil {
		return &finalizeError{"InstanceDeletionFailed", "could not list instances", err}
	}
	if len(all) == 0 {
		return nil
	}
	if err := m.deleteAll(ctx, row, all); err != nil {
		return &finalizeError{"InstanceDeletionFailed", "could not issue all deletes", err}
	}
	if err := m.awaitNone(ctx, row); err != nil {
		return &finalizeError{"InstanceDeletionCheck", "could not confirm zero CustomResources remaining", err}
	}
	return nil
}

// deleteAll deletes objects, in each namespace until one can't be, and tells what failed in all of them.
func (m *Manager) deleteAll(ctx context.Context, row *api.Kind, all []api.Object) error {
	resource := schema.GroupResource{Group: row.Hub.Group, Resource: row.Resource}
	failed := map[string]bool{}
	var problems []error
	for _, obj := range all {
		if obj.GetDeletionTimestamp() != nil || failed[obj.GetNamespace()] {
			continue
		}
		err := m.config.Objects.Delete(ctx, resource, obj.GetNamespace(), obj.GetName(), obj.GetUID())
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed[obj.GetNamespace()], problems = true, append(problems, err)
		}
	}
	return utilerrors.NewAggregate(problems)
}

// awaitNone waits until there are no objects, for a minute at most. Those that other servers still made go like the
// others.
func (m *Manager) awaitNone(ctx context.Context, row *api.Kind) error {
	late := m.config.Clock.After(maxWait)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		all, err := m.config.List(ctx, row)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		if err := m.deleteAll(ctx, row, all); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return context.DeadlineExceeded
		case <-m.config.Clock.After(pause):
		}
	}
}

// note writes a condition, and with done takes the finalizer off, by which the definition is gone if nothing else holds
// it. The error is NotFound if that is gone already.
func (m *Manager) note(ctx context.Context, crd *definition, c condition, done bool) error {
	_, err := m.config.Objects.UpdateStatus(ctx, group, "", crd.Name, func(obj api.Object) (api.Object, error) {
		now := obj.(*definition)
		if now.UID != crd.UID {
			return nil, apierrors.NewNotFound(group, crd.Name)
		}
		apihelpers.SetCRDCondition(now, c)
		if done {
			apihelpers.CRDRemoveFinalizer(now, apiextensionsv1.CustomResourceCleanupFinalizer)
		}
		return now, nil
	})
	return err
}
