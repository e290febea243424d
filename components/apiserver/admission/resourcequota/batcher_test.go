package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

var errPanics = errors.New("the store panics")

// slow is a store in which each write of a status waits to be let go on.
type slow struct {
	*objectstest.Store
	begun chan struct{}
	next  chan error // what comes of the write; nil lets it be done
}

func (s *slow) UpdateStatus(ctx context.Context, r schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error)) (api.Object, error) {
	s.begun <- struct{}{}
	select {
	case err := <-s.next:
		switch {
		case errors.Is(err, errPanics):
			panic(err)
		case apierrors.IsNotFound(err): // memory has it still
			obj, _ := s.Get(ctx, r, namespace, name)
			_, _ = mutate(obj.DeepCopyObject().(api.Object))
			return nil, err
		case err != nil:
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.UpdateStatus(ctx, r, namespace, name, mutate)
}

func slowPlugin(t *testing.T, hard string) (*Plugin, *slow) {
	t.Helper()
	s := &slow{Store: &objectstest.Store{}, begun: make(chan struct{}, 100), next: make(chan error)}
	limit := corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse(hard)}
	s.Put(kind, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: limit},
		Status: corev1.ResourceQuotaStatus{Hard: limit,
			Used: corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse("0")}},
	})
	p, err := New(s, clock.RealClock{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// create asks for a config map, and tells what comes of it.
func create(ctx context.Context, p *Plugin, i int) <-chan error {
	out := make(chan error, 1)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("m", i)}}
	a := admission.NewAttributesRecord(m, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "ns", m.Name,
		corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, nil, false, nil)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				out <- p.(error)
			}
		}()
		out <- p.Validate(ctx, a, nil)
	}()
	return out
}

// wait returns when so many charges wait for another one.
func (p *Plugin) wait(n int) {
	for {
		p.batcher.mu.Lock()
		waiting := len(p.batcher.waiting["ns/q"])
		p.batcher.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// TestChargesAreWrittenTogether: those that come while one is written need one more write, however many they are, and
// each is told whether there was room for it.
func TestChargesAreWrittenTogether(t *testing.T) {
	p, s := slowPlugin(t, "8")
	outcomes := []<-chan error{create(t.Context(), p, 0)}
	<-s.begun
	for i := range 20 {
		outcomes = append(outcomes, create(t.Context(), p, i+1))
	}
	p.wait(20)
	s.next <- nil
	<-s.begun
	s.next <- nil
	admitted := 0
	for _, outcome := range outcomes {
		if err := <-outcome; err == nil {
			admitted++
		} else if !apierrors.IsForbidden(err) {
			t.Error(err)
		}
	}
	q, err := s.Get(t.Context(), kind, "ns", "q")
	if used := q.(*corev1.ResourceQuota).Status.Used[corev1.ResourceConfigMaps]; err != nil || admitted != 8 ||
		used.Value() != 8 || s.Writes != 2 {
		t.Errorf("%d are admitted, %s are used, after %d writes, %v", admitted, used.String(), s.Writes, err)
	}
	if len(p.batcher.waiting) != 0 {
		t.Error("something is left")
	}
}

// used is the quota's usage.
func (s *slow) used(t *testing.T) int64 {
	t.Helper()
	q, err := s.Get(t.Context(), kind, "ns", "q")
	if err != nil {
		t.Fatal(err)
	}
	used := q.(*corev1.ResourceQuota).Status.Used[corev1.ResourceConfigMaps]
	return used.Value()
}

// together begins charges that are written together, the first of them leading, after one that is admitted.
func together(t *testing.T, p *Plugin, s *slow, contexts ...context.Context) (outcomes []<-chan error) {
	t.Helper()
	before := create(t.Context(), p, 0)
	<-s.begun
	for i, ctx := range contexts {
		outcomes = append(outcomes, create(ctx, p, i+1))
		p.wait(i + 1)
	}
	s.next <- nil
	if err := <-before; err != nil {
		t.Fatal(err)
	}
	<-s.begun
	return outcomes
}

// TestChargesOutliveOthers: requests that end, as they write for others, are written or wait, leave these alone.
func TestChargesOutliveOthers(t *testing.T) {
	p, s := slowPlugin(t, "8")
	leads, endLeader := context.WithCancel(t.Context())
	written, endWritten := context.WithCancel(t.Context())
	waits, endWaiting := context.WithCancel(t.Context())
	outcomes := together(t, p, s, leads, written, t.Context())
	waiting, next := create(waits, p, 4), create(t.Context(), p, 5)
	p.wait(2)
	endWritten()
	endWaiting()
	for _, outcome := range []<-chan error{outcomes[1], waiting} {
		if err := <-outcome; !apierrors.IsTimeout(err) {
			t.Errorf("who ended: %v", err)
		}
	}
	endLeader() // which has begun to write
	s.next <- nil
	<-s.begun
	s.next <- nil
	for _, outcome := range []<-chan error{outcomes[0], outcomes[2], next} {
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	}
	if used := s.used(t); used != 5 || s.Writes != 3 {
		t.Errorf("%d are used, after %d writes", used, s.Writes)
	}
	if len(p.batcher.waiting) != 0 {
		t.Error("something is left")
	}
}

// TestChargesShareFaults: an error of writing charges is returned to all of them, and later charges are not affected.
func TestChargesShareFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		told  func(err error) bool
	}{
		"store": {errors.New("the store is ill"),
			func(err error) bool { return err != nil && err.Error() == "the store is ill" }},
		"panic": {errPanics, func(err error) bool {
			return errors.Is(err, errPanics) ||
				apierrors.IsInternalError(err)
		}},
		"gone": {apierrors.NewNotFound(kind, "q"), func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := slowPlugin(t, "2")
			outcomes := together(t, p, s, t.Context(), t.Context()) // of which memory has room for one
			s.next <- c.fault
			for _, outcome := range outcomes {
				if err := <-outcome; !c.told(err) {
					t.Errorf("told: %v", err)
				}
			}
			after := create(t.Context(), p, 3)
			<-s.begun
			s.next <- nil
			if err := <-after; err != nil {
				t.Error(err)
			}
			if used := s.used(t); used != 2 || len(p.batcher.waiting) != 0 {
				t.Errorf("%d are used, %d wait", used, len(p.batcher.waiting))
			}
		})
	}
}
