package checks_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const (
	rounds   = 12
	patience = 20 * time.Second
	space    = metav1.NamespaceDefault
)

// subject is a program under test: it works through a client that is disturbed, beside others that are not. It returns
// what is wrong in the end, as a checker finds it, and fails only if it can't work at all.
type subject func(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error)

func objectsOf(config *rest.Config) (typedv1.ConfigMapInterface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().ConfigMaps(space), nil
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "subject"}}}
}

var ofSubject = metav1.ListOptions{LabelSelector: "of=subject"}

// counter increments a number. The planted bug takes a conflict for the work of another.
func counter(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	objects, err := objectsOf(disturbed)
	if err != nil {
		return nil, err
	}
	if _, err := objects.Create(ctx, named("counter"), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for range rounds {
		err := error(nil)
		if planted {
			if err = increment(ctx, objects); apierrors.IsConflict(err) {
				err = nil
			}
		} else {
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return increment(ctx, objects) })
		}
		if err != nil {
			return nil, err
		}
	}
	return counted(ctx, reference, rounds)
}

func increment(ctx context.Context, objects typedv1.ConfigMapInterface) error {
	obj, err := objects.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = objects.Update(ctx, incremented(obj), metav1.UpdateOptions{})
	return err
}

func incremented(obj *corev1.ConfigMap) *corev1.ConfigMap {
	obj = obj.DeepCopy()
	n, _ := strconv.Atoi(obj.Data["n"])
	obj.Data = map[string]string{"n": strconv.Itoa(n + 1)}
	return obj
}

func counted(ctx context.Context, reference *rest.Config, want int) (wrong, err error) {
	objects, err := objectsOf(reference)
	if err != nil {
		return nil, err
	}
	obj, err := objects.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if obj.Data["n"] != strconv.Itoa(want) {
		return fmt.Errorf("counted %s, want %d", obj.Data["n"], want), nil
	}
	return nil, nil
}

// maker makes a number of objects. A request that has no answer in time is sent again, by the same name. The planted
// bug passes errors over.
func maker(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	objects, err := objectsOf(disturbed)
	if err != nil {
		return nil, err
	}
	for i := range rounds {
		for ctx.Err() == nil {
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err := objects.Create(short, named(fmt.Sprintf("made-%d", i)), metav1.CreateOptions{})
			cancel()
			if err == nil || apierrors.IsAlreadyExists(err) || planted {
				break
			}
		}
	}
	return made(ctx, reference, rounds)
}

// repeater makes a number of objects. The planted bug lets the server name them, so that one that is sent again is
// another one.
func repeater(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	objects, err := objectsOf(disturbed)
	if err != nil {
		return nil, err
	}
	for i := range rounds {
		obj := named(fmt.Sprintf("made-%d", i))
		if planted {
			obj.GenerateName, obj.Name = obj.Name+"-", ""
		}
		for ctx.Err() == nil {
			if _, err := objects.Create(ctx, obj, metav1.CreateOptions{}); err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
		}
	}
	return made(ctx, reference, rounds)
}

func made(ctx context.Context, reference *rest.Config, want int) (wrong, err error) {
	objects, err := objectsOf(reference)
	if err != nil {
		return nil, err
	}
	list, err := objects.List(ctx, ofSubject)
	if err != nil {
		return nil, err
	}
	if len(list.Items) != want {
		return fmt.Errorf("%d objects, want %d", len(list.Items), want), nil
	}
	return nil, nil
}

// stale increments a number of which it has a cache, in turn with another client. The planted bug insists on no
// version.
func stale(ctx context.Context, disturbed, reference *rest.Config, planted bool) (wrong, err error) {
	objects, err := objectsOf(disturbed)
	if err != nil {
		return nil, err
	}
	other, err := objectsOf(reference)
	if err != nil {
		return nil, err
	}
	cached, err := objects.Create(ctx, named("counter"), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	stream, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: cached.ResourceVersion})
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	for range rounds {
		if err := increment(ctx, other); err != nil {
			return nil, err
		}
		cached = newest(stream, cached)
		next := incremented(cached)
		if planted {
			next.ResourceVersion = ""
		}
		if _, err = objects.Update(ctx, next, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return increment(ctx, objects) })
		}
		if err != nil {
			return nil, err
		}
	}
	return counted(ctx, reference, 2*rounds)
}

// newest takes the events that come until there is a pause.
func newest(stream watch.Interface, last *corev1.ConfigMap) *corev1.ConfigMap {
	for {
		select {
		case e := <-stream.ResultChan():
			if obj, ok := e.Object.(*corev1.ConfigMap); ok {
				last = obj
			}
		case <-time.After(100 * time.Millisecond):
			return last
		}
	}
}
