package checks_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/checks"
)

// follower holds the objects of a label, by a list and watches, and counts how many were ever added.
type follower struct {
	objects typedv1.ConfigMapInterface
	planted bool
	stream  watch.Interface
	last    string
	held    map[string]metav1.Object
	added   map[string]bool
	events  int // of type ADDED
}

// resync lists and begins to watch. The planted bug forgets what it lists after the first time.
func (f *follower) resync(ctx context.Context) error {
	list, err := f.objects.List(ctx, ofSubject)
	if err != nil {
		return err
	}
	if first := f.held == nil; first || !f.planted {
		f.held = map[string]metav1.Object{}
		for i := range list.Items {
			f.held[list.Items[i].Name] = &list.Items[i]
		}
	}
	f.last = list.ResourceVersion
	return f.watch(ctx)
}

func (f *follower) watch(ctx context.Context) (err error) {
	options := ofSubject
	options.ResourceVersion = f.last
	f.stream, err = f.objects.Watch(ctx, options)
	return err
}

// next takes one event; when the watch ends, it goes on from the last version, or lists if that is too old. The planted
// bug always begins from what is there now.
func (f *follower) next(ctx context.Context) error {
	select {
	case e, ok := <-f.stream.ResultChan():
		obj, isObject := e.Object.(*corev1.ConfigMap)
		if ok && isObject {
			f.take(e.Type, obj)
			return nil
		}
		f.stream.Stop()
		if f.planted || ok && apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			return f.resync(ctx)
		}
		return f.watch(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *follower) take(kind watch.EventType, obj *corev1.ConfigMap) {
	f.last = obj.ResourceVersion
	switch kind {
	case watch.Deleted:
		delete(f.held, obj.Name)
		return
	case watch.Added:
		f.events++
		f.added[string(obj.UID)] = true
	}
	f.held[obj.Name] = obj
}

// follow makes, changes and deletes objects beside a follower.
func follow(ctx context.Context, disturbed, reference *rest.Config, planted bool) (*follower, error) {
	objects, err := objectsOf(disturbed)
	if err != nil {
		return nil, err
	}
	writer, err := objectsOf(reference)
	if err != nil {
		return nil, err
	}
	f := &follower{objects: objects, planted: planted, added: map[string]bool{}}
	if err := f.resync(ctx); err != nil {
		return nil, err
	}
	defer func() { f.stream.Stop() }()
	// All is written before the first event is taken, so that the same seed finds the follower at the same point.
	for i := range rounds {
		obj, err := writer.Create(ctx, named(fmt.Sprintf("made-%d", i)), metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if i%3 == 0 {
			err = writer.Delete(ctx, obj.Name, metav1.DeleteOptions{})
		} else if i%3 == 1 {
			_, err = writer.Update(ctx, incremented(obj), metav1.UpdateOptions{})
		}
		if err != nil {
			return nil, err
		}
	}
	end, err := writer.Create(ctx, named("the-end"), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for f.held[end.Name] == nil && (!planted || f.last < end.ResourceVersion) {
		if err := f.next(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// holder holds what is there. The planted bug misses what happens between two watches.
func holder(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	f, err := follow(ctx, disturbed, reference, planted)
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(reference)
	if err != nil {
		return nil, err
	}
	list, err := objects.List(ctx, ofSubject)
	if err != nil {
		return nil, err
	}
	var held, listed []metav1.Object
	for _, obj := range f.held {
		held = append(held, obj)
	}
	for i := range list.Items {
		listed = append(listed, &list.Items[i])
	}
	return checks.Equal(held, listed), nil
}

// census counts the objects that were ever made. The planted bug counts events.
func census(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	f, err := follow(ctx, disturbed, reference, false)
	if err != nil {
		return nil, err
	}
	count := len(f.added)
	if planted {
		count = f.events
	}
	if count != rounds+1 {
		return fmt.Errorf("counted %d objects, want %d", count, rounds+1), nil
	}
	return nil, nil
}
