package crd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// Pauses between looks at objects that wait for their finalizers, and between passes after a failure.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	retryPause = time.Second
	// maxWait is for how long objects are waited for until the definition says that they don't go.
	maxWait = time.Minute
)

// clean removes, in the background, all objects of a definition that is being deleted, and then the definition. It is
// called with m.mu held.
func (m *Manager) clean(ctx context.Context, crd *definition) {
	if m.cleaning[crd.UID] {
		return
	}
	m.cleaning[crd.UID] = true
	var row *kinds.Kind // nil if nothing was ever served
	if e := m.resources[crd.UID]; e != nil {
		row = e.kind
	}
	m.work.Go(func() {
		err := m.cleanUp(ctx, crd, row)
		m.mu.Lock()
		delete(m.cleaning, crd.UID)
		m.mu.Unlock()
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Removing the objects of a definition; trying again", "definition", crd.Name)
			m.pokeLater(ctx)
		}
	})
}

func (m *Manager) pokeLater(ctx context.Context) {
	m.work.Go(func() {
		select {
		case <-ctx.Done():
		case <-m.config.Clock.After(retryPause):
			m.poke()
		}
	})
}

func (m *Manager) cleanUp(ctx context.Context, crd *definition, row *kinds.Kind) error {
	started := condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress",
		Message: "CustomResource deletion is in progress",
	}
	if err := m.note(ctx, crd, started, false); err != nil {
		return err
	}
	c := condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: "InstanceDeletionCompleted", Message: "removed all instances",
	}
	switch {
	case row != nil && m.config.Shadows(row):
		c.Reason, c.Message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
	case row == nil || !established(crd):
		c.Reason, c.Message = "NeverEstablished", "resource was never established"
	default:
		if err := m.removeAll(ctx, row); err != nil {
			failed := started
			failed.Reason, failed.Message = "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err)
			if errors.Is(err, context.DeadlineExceeded) {
				failed.Reason, failed.Message = "InstanceDeletionCheck", fmt.Sprintf("could not confirm zero CustomResources remaining: %v", err)
			}
			_ = m.note(ctx, crd, failed, false) // what counts is the failure before
			return err
		}
	}
	return m.note(ctx, crd, c, true)
}

// removeAll deletes all objects, and waits until they are gone, for a minute at most.
func (m *Manager) removeAll(ctx context.Context, row *kinds.Kind) error {
	late := m.config.Clock.After(maxWait)
	resource := schema.GroupResource{Group: row.Hub.Group, Resource: row.Resource}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		all, err := m.config.List(ctx, row)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		for _, obj := range all {
			if obj.GetDeletionTimestamp() != nil {
				continue
			}
			if err := m.config.Objects.Delete(ctx, resource, obj.GetNamespace(), obj.GetName(), obj.GetUID()); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
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

// note writes a condition, and with done takes the finalizer off, by which the definition is gone if nothing else holds it. The
// error is NotFound if that is gone already.
func (m *Manager) note(ctx context.Context, crd *definition, c condition, done bool) error {
	_, err := m.config.Objects.UpdateStatus(ctx, group, "", crd.Name, func(obj kinds.Object) (kinds.Object, error) {
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
