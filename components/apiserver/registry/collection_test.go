package registry

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// names are those of entries, in order.
func names(entries []*cache.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Object.GetName())
	}
	return out
}

// TestListToDelete: all that is chosen, however many pages that are, or the page that is asked for.
func TestListToDelete(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	var all, odd []string
	for i := range 25 {
		name := fmt.Sprintf("m%02d", i)
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta(name, "odd", fmt.Sprint(i%2 == 1))})
		if all = append(all, name); i%2 == 1 {
			odd = append(odd, name)
		}
	}
	selector, err := labels.Parse("odd=true")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		options   cache.ListOptions
		want      []string
		continues bool
	}{
		"all": {cache.ListOptions{Namespace: "a"}, all, false},
		"some": {cache.ListOptions{Namespace: "a", Predicate: cache.Predicate{Label: selector}}, odd,
			false},
		"a page":           {cache.ListOptions{Namespace: "a", Limit: 10}, all[:10], true},
		"those of another": {cache.ListOptions{Namespace: "b"}, nil, false},
	} {
		l, err := f.writer("configmaps", "deletecollection", "").ListToDelete(f.ctx(), c.options)
		if err != nil || !slices.Equal(names(l.Entries), c.want) || (l.Continue != "") != c.continues {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	w := f.writer("configmaps", "deletecollection", "")
	page, err := w.ListToDelete(f.ctx(), cache.ListOptions{Namespace: "a", Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := w.ListToDelete(f.ctx(), cache.ListOptions{Namespace: "a", Continue: page.Continue})
	if err != nil || !slices.Equal(names(rest.Entries), all[20:]) {
		t.Errorf("what follows a page: %v, %v", rest, err)
	}
}

// TestDeleteEach: each object is deleted as if it was deleted alone; what is gone meanwhile doesn't matter, and another
// error ends it.
func TestDeleteEach(t *testing.T) {
	for _, workers := range []int{0, 1, 4} {
		var mu sync.Mutex
		var seen []string
		refused := ""
		f := newFixture(t, setup{workers: workers, admission: admits{validate: func(a admission.Attributes) error {
			if a.GetOperation() != admission.Delete {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			name := a.GetOldObject().(api.Object).GetName()
			if a.GetName() != "" { // the request names none of them
				t.Errorf("admission sees the name %q", a.GetName())
			}
			seen = append(seen, name)
			if name == refused {
				return errors.New("denied")
			}
			return nil
		}}}, "configmaps")
		fill := func() *cache.List {
			for i := range 6 {
				m := meta(fmt.Sprintf("m%d", i))
				if i == 3 {
					m.Finalizers = []string{"example.com/f"}
				}
				f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
			}
			l, err := f.at("configmaps").Cache.List(f.ctx(), cache.ListOptions{Namespace: "a"})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := fill()
		if _, err := f.at("configmaps").Cache.Delete(f.ctx(), f.writer("configmaps", "", "m1").key(), nil); err != nil {
			t.Fatal(err)
		}
		f.settle("configmaps")
		options := &metav1.DeleteOptions{}
		w := f.writer("configmaps", "deletecollection", "")
		if err := w.DeleteEach(f.ctx(), l.Entries, options); err != nil {
			t.Errorf("%d workers: %v", workers, err)
		}
		slices.Sort(seen)
		if want := []string{"m0", "m2", "m3", "m4", "m5"}; !slices.Equal(seen, want) {
			t.Errorf("%d workers: deleted %q", workers, seen)
		}
		l, err := f.at("configmaps").Cache.List(f.ctx(), cache.ListOptions{Namespace: "a"})
		if err != nil || !slices.Equal(names(l.Entries), []string{"m3"}) ||
			l.Entries[0].Object.GetDeletionTimestamp() == nil {
			t.Errorf("%d workers: left %v, %v", workers, l, err)
		}
		if options.Preconditions != nil || options.GracePeriodSeconds != nil || w.Name != "" {
			t.Errorf("%d workers: what was given is changed: %v", workers, options)
		}
		if _, err := f.update("configmaps", "m3", func(obj api.Object) { obj.SetFinalizers(nil) }); err != nil {
			t.Error(err)
		}
		l, seen, refused = fill(), nil, "m2"
		if err := w.DeleteEach(f.ctx(), l.Entries, options); textOf(err) != "denied" {
			t.Errorf("%d workers: %v", workers, err)
		}
		if f.get("configmaps", "m2") == nil || workers < 2 && (len(seen) != 3 || f.get("configmaps", "m4") == nil) {
			t.Errorf("%d workers: goes on after a failure: %q", workers, seen)
		}
	}
}

// TestDeleteEachAlone: what is found out about one object's deletion says nothing of the next.
func TestDeleteEachAlone(t *testing.T) {
	f := newFixture(t, setup{}, "namespaces")
	for _, name := range []string{"x", "y"} {
		f.mustCreate("namespaces", &corev1.Namespace{ObjectMeta: meta(name)})
	}
	l, err := f.at("namespaces").Cache.List(f.ctx(), cache.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.fails(f.writer("namespaces", "deletecollection", "").DeleteEach(f.ctx(), l.Entries, &metav1.DeleteOptions{}), "")
	for _, name := range []string{"x", "y"} {
		if n := f.get("namespaces", name); n.GetDeletionTimestamp() == nil {
			t.Errorf("%s stays", name)
		}
	}
}

// TestCollectorFinalizers: which finalizers a deletion leaves for the garbage collector.
func TestCollectorFinalizers(t *testing.T) {
	const orphan, foreground, own = metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "example.com/f"
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	orphans := func(yes bool) metav1.DeleteOptions { return metav1.DeleteOptions{OrphanDependents: &yes} }
	byDefault := api.Strategy[api.Object]{OrphanByDefault: true}
	for name, c := range map[string]struct {
		strategy api.Strategy[api.Object]
		has      []string
		options  metav1.DeleteOptions
		first    bool
		none     bool // there is no collector
		want     []string
		changed  bool
	}{
		"nothing said":                 {},
		"nothing said of what has one": {has: []string{orphan, own}, want: []string{orphan, own}},
		"nothing said of what waits":   {has: []string{own, foreground}, want: []string{own, foreground}},
		"nothing said of what has both": {has: []string{foreground, orphan}, want: []string{foreground},
			changed: true},
		"nothing said, orphaned before": {strategy: byDefault, want: []string{orphan}, changed: true},
		"the default, but it waits": {strategy: byDefault, has: []string{foreground},
			want: []string{foreground}},
		"orphan":                         {options: policy("Orphan"), want: []string{orphan}, changed: true},
		"foreground":                     {options: policy("Foreground"), want: []string{foreground}, changed: true},
		"background":                     {options: policy("Background")},
		"background against the default": {strategy: byDefault, options: policy("Background")},
		"background of what has one": {has: []string{orphan, own}, options: policy("Background"),
			want: []string{own}, changed: true},
		"foreground of what orphans": {has: []string{orphan, own}, options: policy("Foreground"),
			want: []string{own, foreground}, changed: true},
		"orphan of what does": {has: []string{orphan}, options: policy("Orphan"), want: []string{orphan}},
		"twice is once": {has: []string{orphan, orphan}, options: policy("Orphan"),
			want: []string{orphan, orphan}},
		"of old: orphan": {options: orphans(true), want: []string{orphan}, changed: true},
		"of old: don't": {has: []string{orphan, own}, options: orphans(false), want: []string{own},
			changed: true},
		"of old: don't, at first": {options: orphans(false), first: true, want: []string{foreground},
			changed: true},
		"of old: don't, against a default": {strategy: byDefault, options: orphans(false)},
		"a kind without dependents": {strategy: api.Strategy[api.Object]{NoDependents: true},
			options: policy("Orphan")},
		"a kind without dependents loses one": {strategy: api.Strategy[api.Object]{NoDependents: true},
			has: []string{orphan}, want: []string{}, changed: true},
		"no collector": {options: policy("Orphan"), none: true},
		"no collector, has them": {has: []string{orphan}, options: policy("Background"), none: true,
			want: []string{orphan}},
	} {
		d := &deletion{Writer: (&Endpoint{
			Kind:     &api.Kind{Strategy: c.strategy},
			registry: &Registry{config: Config{NoCollector: c.none}},
		}).Writer(&Request{})}
		before := slices.Clone(c.has)
		got, changed := d.collectorFinalizers(c.has, &c.options, c.first)
		if !slices.Equal(got, c.want) || changed != c.changed || !slices.Equal(before, c.has) {
			t.Errorf("%s: %q, changed %t; %q became %q", name, got, changed, before, c.has)
		}
	}
}

// TestPropagation: an object stays for the garbage collector only if its policy asks it for something.
func TestPropagation(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation][]string{
		"Orphan": {"orphan"}, "Foreground": {"foregroundDeletion"}, "Background": nil, "": nil,
	} {
		for _, none := range []bool{false, true} {
			f := newFixture(t, setup{noCollector: none}, "deployments")
			f.mustCreate("deployments", deployment(meta("x")))
			o := &metav1.DeleteOptions{}
			if policy != "" {
				o.PropagationPolicy = &policy
			}
			obj, gone, err := f.delete("deployments", "x", o)
			if wantGone := none || want == nil; err != nil || gone != wantGone {
				t.Errorf("%q: gone %t, %v", policy, gone, err)
				continue
			}
			if !gone && (!slices.Equal(obj.GetFinalizers(), want) || obj.GetDeletionTimestamp() == nil) {
				t.Errorf("%q: left %v", policy, obj)
			}
			if _, err := f.writer("deployments", "get", "x").Get(f.ctx(), ""); apierrors.IsNotFound(err) != gone {
				t.Errorf("%q: gone %t, and then %v", policy, gone, err)
			}
		}
	}
}
