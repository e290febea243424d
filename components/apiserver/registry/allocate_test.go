package registry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// logAllocations is a hook that notes what is allocated, and what became of it.
func logAllocations(log *[]string) func(context.Context, api.Object, api.Object, bool) (func(api.Outcome), error) {
	return func(_ context.Context, obj, old api.Object, dry bool) (func(api.Outcome), error) {
		what, of := "allocate", obj
		switch {
		case obj == nil:
			what, of = "release", old
		case old != nil:
			what = "reallocate"
		}
		text := what + " " + of.GetName()
		if dry {
			text = "dry " + text
		}
		return func(o api.Outcome) {
			became := map[api.Outcome]string{api.Stored: "stored", api.NotStored: "not stored", api.Unsure: "unsure"}[o]
			*log = append(*log, text+": "+became)
		}, nil
	}
}

// failing is a store whose writes fail with an error, if there is one.
type failing struct {
	storage.Store
	err error
}

func (s *failing) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *failing) Update(ctx context.Context, key string, value []byte, at int64, ttl time.Duration) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.Store.Update(ctx, key, value, at, ttl)
}

// TestAllocations: what became of a write is told exactly once, and of one whose outcome is unknown just that.
func TestAllocations(t *testing.T) {
	var log []string
	store := &failing{Store: memory.New(nil)}
	f := newFixture(t, setup{store: store, kind: func(k *api.Kind) { k.Strategy.Allocate = logAllocations(&log) }},
		"configmaps")
	create := func(dryRun ...string) error {
		_, err := f.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")}, dryRun...)
		return err
	}
	update := func(mutate func(api.Object), dryRun ...string) error {
		_, err := f.update("configmaps", "x", mutate, dryRun...)
		return err
	}
	tries := 0
	for _, c := range []struct {
		what  string
		store error
		do    func() error
		want  string
	}{
		{"a dry run", nil, func() error { return create(metav1.DryRunAll) }, "dry allocate x: not stored"},
		{"an outage", storage.ErrClosed, func() error { return create() }, "allocate x: unsure"},
		{"a creation", nil, func() error { return create() }, "allocate x: stored"},
		{"another", nil, func() error { return create() }, "allocate x: not stored"},
		{"a change", nil, func() error { return update(label("a", "1")) }, "reallocate x: stored"},
		{"no change", nil, func() error { return update(label("a", "1")) }, "reallocate x: stored"},
		{"a dry change", nil, func() error { return update(label("a", "2"), metav1.DryRunAll) },
			"dry reallocate x: not stored"},
		{"an invalid change", nil, func() error { return update(func(obj api.Object) { obj.SetUID("u") }) },
			"reallocate x: not stored"},
		{"a change in an outage", storage.ErrClosed, func() error { return update(label("a", "3")) },
			"reallocate x: unsure"},
		{"a race", nil, func() error {
			return update(func(obj api.Object) {
				if tries++; tries == 1 {
					w := f.writer("configmaps", "", "x")
					_, _ = w.Cache.Update(f.ctx(), w.key(), nil, func(current *cache.Entry) (api.Object, error) {
						obj := copyOf(current.Object)
						obj.SetAnnotations(map[string]string{"n": "1"})
						return obj, nil
					})
				}
				label("a", "4")(obj)
			})
		}, "reallocate x: not stored; reallocate x: stored"},
	} {
		log = nil
		f.settle("configmaps")
		store.err = c.store
		err := c.do()
		store.err = nil
		if got := strings.Join(log, "; "); got != c.want {
			t.Errorf("%s: %s, want %s; %v", c.what, got, c.want, err)
		}
	}
}

// slim is a store that takes nothing with managed fields: they make all objects too large.
type slim struct{ storage.Store }

func (s slim) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if strings.Contains(string(value), "FieldsV1") {
		return 0, &storage.TooLargeError{Err: fmt.Errorf("too large")}
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s slim) Update(ctx context.Context, key string, value []byte, at int64, ttl time.Duration) (int64, error) {
	if strings.Contains(string(value), "FieldsV1") {
		return 0, &storage.TooLargeError{Err: fmt.Errorf("too large")}
	}
	return s.Store.Update(ctx, key, value, at, ttl)
}

// TestTooLargeWithManagedFields: what fits without its managed fields is stored without, unless these are what the
// write is about.
func TestTooLargeWithManagedFields(t *testing.T) {
	f := newFixture(t, setup{store: slim{memory.New(nil)}}, "configmaps")
	sent := &corev1.ConfigMap{ObjectMeta: meta("x"), Data: map[string]string{"k": "v"}}
	w := f.writer("configmaps", "create", "")
	owned := copyOf(sent)
	w.Track(nil, owned, "tester")
	if _, err := w.insert(f.ctx(), owned, creation{options: &metav1.CreateOptions{}, owns: true}); !isTooLarge(err) {
		t.Errorf("what is about them: %v", err)
	}
	if obj := f.mustCreate("configmaps", sent); len(obj.GetManagedFields()) > 0 {
		t.Errorf("stored with %v", managers(obj))
	}
	entry := metav1.ManagedFieldsEntry{Manager: "tester", Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}
	for _, owns := range []bool{true, false} {
		e, _, err := f.writer("configmaps", "update", "x").Update(f.ctx(), Change{
			Options: &metav1.UpdateOptions{}, Owns: owns, Next: func(current *cache.Entry) (api.Object, error) {
				obj := copyOf(current.Object)
				obj.SetLabels(map[string]string{"a": "1"})
				obj.SetManagedFields([]metav1.ManagedFieldsEntry{entry})
				return obj, nil
			}})
		if owns && !isTooLarge(err) {
			t.Errorf("a change of them: %v", err)
		}
		if !owns && (err != nil || e.Object.GetLabels()["a"] != "1" || len(e.Object.GetManagedFields()) > 0) {
			t.Errorf("a change: %v, %v", e, err)
		}
	}
}
