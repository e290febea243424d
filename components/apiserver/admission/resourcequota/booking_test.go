package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// slow is a store in which each write of a status waits to be let go on.
type slow struct {
	*objectstest.Store
	begun chan struct{}
	next  chan error // what comes of the write; nil lets it be done
}

func (s *slow) UpdateStatus(ctx context.Context, r schema.GroupResource, namespace, name string, mutate func(kinds.Object) (kinds.Object, error)) (kinds.Object, error) {
	s.begun <- struct{}{}
	select {
	case err := <-s.next:
		if err != nil {
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
		Status: corev1.ResourceQuotaStatus{Hard: limit, Used: corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse("0")}},
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
	go func() { out <- p.Validate(ctx, a, nil) }()
	return out
}

// wait returns when so many charges wait for another one.
func (p *Plugin) wait(n int) {
	for {
		p.desks.mu.Lock()
		waiting := len(p.desks.waiting["ns/q"])
		p.desks.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// TestChargesAreWrittenTogether: those that come while one is written need one more write, however many they are, and each is told
// whether there was room for it.
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
	if used := q.(*corev1.ResourceQuota).Status.Used[corev1.ResourceConfigMaps]; err != nil || admitted != 8 || used.Value() != 8 || s.Writes != 2 {
		t.Errorf("%d are admitted, %s are used, after %d writes, %v", admitted, used.String(), s.Writes, err)
	}
	if len(p.desks.waiting) != 0 {
		t.Error("something is left")
	}
}

// TestChargesOutliveOthers: a request that ends, as it writes for others or waits, leaves these alone; what else goes wrong they share.
func TestChargesOutliveOthers(t *testing.T) {
	p, s := slowPlugin(t, "8")
	leading, endLeading := context.WithCancel(t.Context())
	first := create(leading, p, 0)
	<-s.begun
	waiting, endWaiting := context.WithCancel(t.Context())
	second := create(waiting, p, 1)
	p.wait(1)
	third := create(t.Context(), p, 2)
	p.wait(2)
	endWaiting()
	if err := <-second; !apierrors.IsTimeout(err) {
		t.Errorf("who waited: %v", err)
	}
	endLeading()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who wrote: %v", err)
	}
	<-s.begun // for the third
	fourth := create(t.Context(), p, 3)
	p.wait(1)
	s.next <- nil
	if err := <-third; err != nil {
		t.Error(err)
	}
	<-s.begun
	var others sync.WaitGroup
	others.Go(func() { s.next <- errors.New("the store is ill") })
	if err := <-fourth; err == nil || err.Error() != "the store is ill" {
		t.Errorf("the fault of the store: %v", err)
	}
	others.Wait()
	if len(p.desks.waiting) != 0 {
		t.Error("something is left")
	}
}
