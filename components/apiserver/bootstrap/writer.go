package bootstrap

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// objectWriter writes objects that other servers may be writing at the same time.
type objectWriter struct {
	objects objects.Store
	running bool // Bootstrap.Run has begun
}

// createMissing creates an object unless there is one of its name.
func (w *objectWriter) createMissing(ctx context.Context, resource schema.GroupResource, obj api.Object) error {
	_, err := w.objects.Get(ctx, resource, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		if _, err = w.objects.Create(ctx, resource, obj); err != nil {
			return w.appears(ctx, resource, obj, err)
		}
	}
	return err
}

// write creates obj, or lets change repair what is stored; change reports whether it had to.
func (w *objectWriter) write(ctx context.Context, resource schema.GroupResource, obj api.Object,
	change func(api.Object) bool) error {
	current, err := w.objects.Get(ctx, resource, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		if _, err = w.objects.Create(ctx, resource, obj); err == nil {
			return nil
		}
		if err = w.appears(ctx, resource, obj, err); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if !change(current.DeepCopyObject().(api.Object)) {
		return nil
	}
	_, err = w.objects.Update(ctx, resource, obj.GetNamespace(), obj.GetName(),
		func(stored api.Object) (api.Object, error) {
			change(stored)
			return stored, nil
		})
	return err
}

// appears waits for an object that could not be created because another server that starts at the same time creates it
// just now: it is there already, or its address is taken for it. If it doesn't appear, refusal is why it could not be
// created. Bootstrap.Run, which has a lease to renew and tries again soon, looks only once.
func (w *objectWriter) appears(ctx context.Context, resource schema.GroupResource, obj api.Object,
	refusal error) error {
	if !apierrors.IsAlreadyExists(refusal) && !apierrors.IsInvalid(refusal) {
		return refusal
	}
	there := func(ctx context.Context) (bool, error) {
		_, err := w.objects.Live(ctx, resource, obj.GetNamespace(), obj.GetName())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	if w.running {
		if found, err := there(ctx); found || err != nil {
			return err
		}
		return refusal
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, there)
	if wait.Interrupted(err) {
		return refusal
	}
	return err
}

func setLabels(obj metav1.Object, labels map[string]string) {
	all := obj.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range labels {
		all[k] = v
	}
	obj.SetLabels(all)
}
