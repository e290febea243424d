package bootstrap

import (
	"context"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func TestFairnessIsKept(t *testing.T) {
	ctx := context.Background()
	store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := New(Config{Objects: store, Clock: clk})
	if err := b.keepFairness(ctx); err != nil {
		t.Fatal(err)
	}
	if first := store.Writes; first < 19 {
		t.Errorf("only %d writes on an empty store", first)
	}
	level := func(name string) *flowcontrolv1.PriorityLevelConfiguration {
		t.Helper()
		l, err := objects.As[*flowcontrolv1.PriorityLevelConfiguration](store.Get(ctx, priorityLevels, "", name))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	change := func(name string, f func(*flowcontrolv1.PriorityLevelConfiguration)) {
		t.Helper()
		if _, err := store.Update(ctx, priorityLevels, "", name, func(o api.Object) (api.Object, error) {
			f(o.(*flowcontrolv1.PriorityLevelConfiguration))
			return o, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	shares := func(n int32) func(*flowcontrolv1.PriorityLevelConfiguration) {
		return func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Limited.NominalConcurrencyShares = ptr.To(n) }
	}
	change("catch-all", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		shares(77)(l)
		l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false" // of no use on a mandatory object
	})
	change("system", shares(77))
	change("workload-low", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		shares(77)(l)
		l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false"
	})
	change("workload-high", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		shares(77)(l)
		l.Annotations, l.Generation = nil, 2
	})
	change("leader-election", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		shares(77)(l)
		l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey], l.Generation = "maybe", 2
	})
	change("node-high", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		shares(77)(l)
		l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "T"
	})
	change("exempt", func(l *flowcontrolv1.PriorityLevelConfiguration) {
		l.Spec.Exempt.NominalConcurrencyShares = ptr.To(int32(9))
	})
	for name, annotation := range map[string]string{"former": "true", "older": "1", "mine": "false", "odd": "maybe"} {
		l := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: annotation},
		}}
		if _, err := store.Create(ctx, priorityLevels, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.keepFairness(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		shares     int32
		annotation string
	}{
		"catch-all":       {5, "true"},
		"system":          {30, "true"},
		"workload-low":    {77, "false"},
		"workload-high":   {77, "false"},
		"leader-election": {77, "false"},
		"node-high":       {40, "T"},
	} {
		l := level(name)
		if got := *l.Spec.Limited.NominalConcurrencyShares; got != want.shares ||
			l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != want.annotation {
			t.Errorf("%s: %d shares, annotations %v; want %d, %s", name, got, l.Annotations, want.shares,
				want.annotation)
		}
	}
	if got := *level("exempt").Spec.Exempt.NominalConcurrencyShares; got != 9 {
		t.Errorf("exempt has %d shares, want those of the administrator", got)
	}
	for _, name := range []string{"former", "older"} {
		if _, err := store.Get(ctx, priorityLevels, "", name); !apierrors.IsNotFound(err) {
			t.Errorf("%s, which another release brought, is still there: %v", name, err)
		}
	}
	level("mine")
	level("odd")
	before := store.Writes
	if err := b.keepFairness(ctx); err != nil || store.Writes != before {
		t.Errorf("%d writes when nothing had changed, %v", store.Writes-before, err)
	}
}
