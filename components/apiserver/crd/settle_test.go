package crd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestSettles: of several servers, each has time to learn of a definition before clients are told of it, and before
// objects are made that must be found everywhere.
func TestSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crd := named(0, "foos", "Foo")
		crd.UID = "u"
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}
		store, shared := &objectstest.Store{}, true
		store.Put(group, crd)
		var row *api.Kind
		m := New(Config{
			Objects: store, Clock: clock.RealClock{}, EstablishAfter: 5 * time.Second,
			Shared: func(context.Context) bool { return shared },
			Install: func(_ context.Context, rows []*api.Kind, _ []schema.GroupVersion) error {
				if len(rows) > 0 {
					row = rows[0]
				}
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		is := func(what apiextensionsv1.CustomResourceDefinitionConditionType) bool {
			synctest.Wait()
			obj, err := store.Get(ctx, group, "", crd.Name)
			return err == nil && apihelpers.IsCRDConditionTrue(obj.(*definition), what)
		}
		if !is(apiextensionsv1.NamesAccepted) || is(apiextensionsv1.Established) {
			t.Error("at first: it has no names, or is established at once")
		}
		<-time.After(5*time.Second - 1)
		if is(apiextensionsv1.Established) {
			t.Error("it is established too early")
		}
		<-time.After(1)
		if !is(apiextensionsv1.Established) {
			t.Fatal("it isn't established")
		}
		for _, c := range []struct {
			shared bool
			waits  time.Duration
		}{{false, 0}, {true, settling}, {true, 0}} {
			shared = c.shared
			began := time.Now()
			row.Custom.Settle(ctx)
			if took := time.Since(began); took != c.waits {
				t.Errorf("shared: %t: waits for %v, not %v", c.shared, took, c.waits)
			}
		}
	})
}
