package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestGracefulDeletion: a pod that runs gets the time to stop that the request or its spec says; later requests can
// only
// shorten it.
func TestGracefulDeletion(t *testing.T) {
	seconds := func(n int64) *metav1.DeleteOptions { return &metav1.DeleteOptions{GracePeriodSeconds: &n} }
	type step struct {
		options *metav1.DeleteOptions
		after   time.Duration // since the pod was created
		gone    bool
		grace   int64
		ends    time.Duration // since the pod was created
	}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		steps []step
	}{
		"by its spec":       {pod("p", "n"), []step{{nil, 0, false, 30, 30 * time.Second}}},
		"by the request":    {pod("p", "n"), []step{{seconds(5), 0, false, 5, 5 * time.Second}}},
		"at once":           {pod("p", "n"), []step{{seconds(0), 0, true, 0, 0}}},
		"less than nothing": {pod("p", "n"), []step{{seconds(-7), 0, false, 1, time.Second}}},
		"on no node":        {pod("p", ""), []step{{seconds(5), 0, true, 0, 0}}},
		"a longer period afterwards": {pod("p", "n"), []step{
			{seconds(5), 0, false, 5, 5 * time.Second}, {seconds(60), time.Second, false, 5, 5 * time.Second}}},
		"the same again": {pod("p", "n"), []step{
			{nil, 0, false, 30, 30 * time.Second}, {nil, time.Second, false, 30, 30 * time.Second}}},
		"a shorter period afterwards": {pod("p", "n"), []step{
			{nil, 0, false, 30, 30 * time.Second}, {seconds(10), time.Second, false, 10, 10 * time.Second}}},
		"a shorter period, which is over": {pod("p", "n"), []step{
			{nil, 0, false, 30, 30 * time.Second}, {seconds(5), 9 * time.Second, false, 1, 9 * time.Second}}},
		"killed afterwards": {pod("p", "n"), []step{
			{nil, 0, false, 30, 30 * time.Second}, {seconds(0), 9 * time.Second, true, 0, 9 * time.Second}}},
	} {
		f := newFixture(t, setup{}, "pods")
		made := f.mustCreate("pods", c.pod)
		for i, s := range c.steps {
			f.clock.SetTime(began.Add(s.after))
			var o *metav1.DeleteOptions
			if s.options != nil {
				o = s.options.DeepCopy()
			}
			obj, gone, err := f.delete("pods", "p", o)
			if err != nil || gone != s.gone {
				t.Fatalf("%s, %d: gone %t, %v", name, i, gone, err)
			}
			end, grace := obj.GetDeletionTimestamp(), obj.GetDeletionGracePeriodSeconds()
			if end == nil || !end.Time.Equal(began.Add(s.ends)) || grace == nil || *grace != s.grace {
				t.Errorf("%s, %d: ends at %v after %v", name, i, end, grace)
			}
			if obj.GetGeneration() != made.GetGeneration()+1 {
				t.Errorf("%s, %d: generation %d of %d", name, i, obj.GetGeneration(), made.GetGeneration())
			}
			if stays := f.get("pods", "p") != nil; stays == s.gone {
				t.Errorf("%s, %d: stays %t", name, i, stays)
			}
		}
	}
}

// TestEndedPodNeedsNoGrace: as there is nothing left to stop.
func TestEndedPodNeedsNoGrace(t *testing.T) {
	for phase, gone := range map[corev1.PodPhase]bool{
		corev1.PodRunning: false, corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		f := newFixture(t, setup{}, "pods")
		f.mustCreate("pods", pod("p", "n"))
		if _, err := f.update("pods/status", "p", func(obj api.Object) {
			obj.(*corev1.Pod).Status.Phase = phase
		}); err != nil {
			t.Fatal(err)
		}
		if _, got, err := f.delete("pods", "p", nil); err != nil || got != gone {
			t.Errorf("%s: gone %t, %v", phase, got, err)
		}
	}
}

// TestPreconditions: what is deleted is what the client means, and else stays.
func TestPreconditions(t *testing.T) {
	f := newFixture(t, setup{}, "pods", "namespaces")
	for path, obj := range map[string]api.Object{
		"pods": pod("x", ""), "namespaces": &corev1.Namespace{ObjectMeta: meta("x")},
	} {
		made := f.mustCreate(path, obj)
		uid, version := made.GetUID(), made.GetResourceVersion()
		texts := []string{
			fmt.Sprintf("Operation cannot be fulfilled on Pod %q: the UID in the precondition (u) does not match "+
				"the UID "+
				"in record (%s). The object might have been deleted and then recreated", "x", uid),
			fmt.Sprintf("Operation cannot be fulfilled on Pod %q: the ResourceVersion in the precondition (1) "+
				"does not "+
				"match the ResourceVersion in record (%s). The object might have been modified", "x", version),
		}
		if path == "namespaces" {
			texts = []string{
				fmt.Sprintf("Operation cannot be fulfilled on namespaces %q: Precondition failed: UID in "+
					"precondition: u, "+
					"UID in object meta: %s", "x", uid),
				fmt.Sprintf("Operation cannot be fulfilled on namespaces %q: Precondition failed: ResourceVersion in "+
					"precondition: 1, ResourceVersion in object meta: %s", "x", version),
			}
		}
		check := f.unwritten()
		for i, p := range []*metav1.Preconditions{
			{UID: new(types.UID("u"))}, {ResourceVersion: new("1")},
			{UID: new(types.UID("u")), ResourceVersion: new("1")}, // of which the first is told
		} {
			for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
				_, _, err := f.delete(path, "x", &metav1.DeleteOptions{Preconditions: p, DryRun: dryRun})
				f.fails(err, texts[i%2])
				if !apierrors.IsConflict(err) {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
		check()
		met := &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
		if _, _, err := f.delete(path, "x", &metav1.DeleteOptions{Preconditions: met}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestDeleteWithFinalizers: the object is marked once and stays, of the next generation if it has one.
func TestDeleteWithFinalizers(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "deployments")
	m := meta("x")
	m.Finalizers = []string{"example.com/f"}
	f.clock.SetTime(began.Add(500 * time.Millisecond))
	for path, c := range map[string]struct {
		obj        api.Object
		generation int64
	}{"configmaps": {&corev1.ConfigMap{ObjectMeta: m}, 0}, "deployments": {deployment(m), 2}} {
		f.mustCreate(path, c.obj)
		obj, gone, err := f.delete(path, "x", nil)
		if err != nil || gone {
			t.Fatalf("%s: gone %t, %v", path, gone, err)
		}
		at, grace := obj.GetDeletionTimestamp(), obj.GetDeletionGracePeriodSeconds()
		if at == nil || !at.Time.Equal(began) || grace == nil || *grace != 0 || obj.GetGeneration() != c.generation {
			t.Errorf("%s: marked at %v with %v, generation %d", path, at, grace, obj.GetGeneration())
		}
		f.clock.SetTime(began.Add(time.Hour))
		check := f.unwritten()
		again, gone, err := f.delete(path, "x", nil)
		if err != nil || gone || again.GetResourceVersion() != obj.GetResourceVersion() {
			t.Errorf("%s: again: gone %t, %v, %v", path, gone, again, err)
		}
		check()
		f.clock.SetTime(began.Add(500 * time.Millisecond))
	}
}

// TestDeleteMissing: what isn't there can't be deleted.
func TestDeleteMissing(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	defer f.unwritten()()
	for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
		_, _, err := f.delete("configmaps", "x", &metav1.DeleteOptions{DryRun: dryRun})
		f.fails(err, `configmaps "x" not found`)
		if !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// TestDeleteDryRun: the answer is that of a deletion, and nothing is written.
func TestDeleteDryRun(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "pods")
	m := meta("held")
	m.Finalizers = []string{"example.com/f"}
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("free")})
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
	f.mustCreate("pods", pod("running", "n"))
	defer f.unwritten()()
	for _, c := range []struct {
		path, name   string
		gone, marked bool
	}{{"configmaps", "free", true, false}, {"configmaps", "held", false, true}, {"pods", "running", false, true}} {
		obj, gone, err := f.delete(c.path, c.name, &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || gone != c.gone || (obj.GetDeletionTimestamp() != nil) != c.marked {
			t.Errorf("%s: gone %t, %v, %v", c.name, gone, obj, err)
		}
		if now := f.get(c.path, c.name); now == nil || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s: stored %v", c.name, now)
		}
	}
}

// TestDeleteNamespace: the first deletion marks it, whatever it holds; it goes when its content is finalized.
func TestDeleteNamespace(t *testing.T) {
	f := newFixture(t, setup{}, "namespaces")
	f.mustCreate("namespaces", &corev1.Namespace{ObjectMeta: meta("n")})
	obj, gone, err := f.delete("namespaces", "n", nil)
	if err != nil || gone {
		t.Fatal(gone, err)
	}
	n := obj.(*corev1.Namespace)
	if n.Status.Phase != corev1.NamespaceTerminating || n.DeletionTimestamp == nil ||
		n.DeletionGracePeriodSeconds != nil || len(n.Spec.Finalizers) != 1 {
		t.Errorf("marked %+v", n)
	}
	check := f.unwritten()
	if _, gone, err := f.delete("namespaces", "n", nil); gone || err != nil {
		t.Errorf("again: gone %t, %v", gone, err)
	}
	if _, err := f.update("namespaces", "n", func(obj api.Object) {
		obj.(*corev1.Namespace).Spec.Finalizers = nil // which only its subresource takes away
	}); err != nil {
		t.Error(err)
	}
	check()
	finalized := func(obj api.Object) { obj.(*corev1.Namespace).Spec.Finalizers = nil }
	if _, err := f.update("namespaces/finalize", "n", finalized); err != nil {
		t.Error(err)
	}
	if left := f.get("namespaces", "n"); left != nil {
		t.Errorf("left %v", left)
	}
}

// TestDeletionIsPinned: of a namespace that was deleted and created again meanwhile admission and store mean the one
// that was seen.
func TestDeletionIsPinned(t *testing.T) {
	var seen []*metav1.DeleteOptions
	f := newFixture(t, setup{admission: admits{validate: func(a admission.Attributes) error {
		if o, ok := a.GetOperationOptions().(*metav1.DeleteOptions); ok {
			seen = append(seen, o)
		}
		return nil
	}}}, "namespaces", "configmaps")
	made := f.mustCreate("namespaces", &corev1.Namespace{ObjectMeta: meta("n")})
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("n")})
	if _, _, err := f.delete("namespaces", "n", nil); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Preconditions == nil || *seen[0].Preconditions.UID != made.GetUID() {
		t.Errorf("shown %v", seen)
	}
	seen = nil
	if _, _, err := f.delete("configmaps", "n", nil); err != nil || len(seen) != 1 || seen[0].Preconditions != nil {
		t.Errorf("of another kind: shown %v, %v", seen, err)
	}
}

// TestDeletionIsAdmitted: each state of the object is shown once, with the grace period that it gets.
func TestDeletionIsAdmitted(t *testing.T) {
	var shown []string
	refuse := 0
	f := newFixture(t, setup{admission: admits{validate: func(a admission.Attributes) error {
		if a.GetOperation() != admission.Delete {
			return nil
		}
		o, old := a.GetOperationOptions().(*metav1.DeleteOptions), a.GetOldObject().(api.Object)
		grace := "none"
		if o.GracePeriodSeconds != nil {
			grace = fmt.Sprint(*o.GracePeriodSeconds)
		}
		shown = append(shown, fmt.Sprintf("%s going:%t grace:%s", old.GetName(), old.GetDeletionTimestamp() != nil,
			grace))
		if len(shown) == refuse {
			return errors.New("denied")
		}
		return nil
	}}}, "pods", "configmaps")
	held := meta("held")
	held.Finalizers = []string{"example.com/f"}
	for _, c := range []struct {
		path string
		obj  api.Object
		want []string
	}{
		{"configmaps", &corev1.ConfigMap{ObjectMeta: meta("plain")}, []string{"plain going:false grace:none"}},
		{"configmaps", &corev1.ConfigMap{ObjectMeta: held}, []string{"held going:false grace:none"}},
		{"pods", pod("running", "n"), []string{"running going:false grace:30"}},
		{"pods", pod("pending", ""), []string{"pending going:false grace:0", "pending going:true grace:0"}},
	} {
		f.mustCreate(c.path, c.obj)
		for refuse = 1; refuse <= len(c.want)+1; refuse++ {
			shown = nil
			f.settle(c.path)
			_, _, err := f.delete(c.path, c.obj.GetName(), nil)
			want := c.want[:min(refuse, len(c.want))]
			if refuse == 2 && len(c.want) == 2 {
				want = c.want // what was marked stays marked
			}
			if refuse > 2 {
				want = []string{"pending going:true grace:none"} // a removal that was cut short
			}
			if denied := textOf(err) == "denied"; denied != (refuse <= len(c.want)) || !slices.Equal(shown, want) {
				t.Errorf("%s, refused at %d: shown %q, %v", c.obj.GetName(), refuse, shown, err)
			}
		}
	}
}

// TestDeletionRaces: an object that changes while it is deleted is deleted as it is then.
func TestDeletionRaces(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(f *fixture)
		gone      bool
		fails     string
	}{
		"changed": {func(f *fixture) { _, _ = f.update("configmaps", "x", label("a", "1")) }, true, ""},
		"held by a finalizer": {func(f *fixture) {
			_, _ = f.update("configmaps", "x", func(obj api.Object) { obj.SetFinalizers([]string{"example.com/f"}) })
		}, false, ""},
		"gone": {func(f *fixture) {
			_, _ = f.at("configmaps").Cache.Delete(f.ctx(), f.at("configmaps").Cache.Key("a", "x"), nil)
		}, false, `configmaps "x" not found`},
	} {
		var f *fixture
		done := false
		f = newFixture(t, setup{admission: admits{validate: func(a admission.Attributes) error {
			if a.GetOperation() == admission.Delete && !done {
				done = true
				c.meanwhile(f)
			}
			return nil
		}}}, "configmaps")
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
		f.settle("configmaps")
		obj, gone, err := f.delete("configmaps", "x", nil)
		f.fails(err, c.fails)
		if gone != c.gone {
			t.Errorf("%s: gone %t", name, gone)
		}
		if left := f.get("configmaps", "x"); (left != nil) != (c.fails == "" && !c.gone) {
			t.Errorf("%s: left %v", name, left)
		}
		if err == nil && !gone && (obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) != 1) {
			t.Errorf("%s: answered %v", name, obj)
		}
	}
}

// TestLosingFinalizers: an object that a policy frees of the garbage collector's finalizers is shown once more before
// it goes, as losing them was a write upstream.
func TestLosingFinalizers(t *testing.T) {
	shown := 0
	f := newFixture(t, setup{admission: admits{validate: func(a admission.Attributes) error {
		if a.GetOperation() == admission.Delete {
			shown++
		}
		return nil
	}}}, "configmaps")
	for name, want := range map[string]int{"plain": 1, "orphans": 2} {
		m := meta(name)
		if want == 2 {
			m.Finalizers = []string{metav1.FinalizerOrphanDependents}
		}
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
		f.settle("configmaps")
		shown = 0
		background := metav1.DeletePropagationBackground
		_, gone, err := f.delete("configmaps", name, &metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil || !gone || shown != want {
			t.Errorf("%s: gone %t, %v, shown %d times", name, gone, err, shown)
		}
	}
}

// late is a store before whose first deletion something happens.
type late struct {
	storage.Store
	before func()
}

func (s *late) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if do := s.before; do != nil {
		s.before = nil
		do()
	}
	return s.Store.Delete(ctx, key, expected)
}

// TestLateFinalizer: an object that gets a finalizer just before it is removed stays for it, and what it said of its
// version no longer holds.
func TestLateFinalizer(t *testing.T) {
	for _, precondition := range []bool{false, true} {
		store := &late{Store: memory.New(nil)}
		f := newFixture(t, setup{store: store}, "configmaps")
		made := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
		store.before = func() {
			if _, err := f.update("configmaps", "x", func(obj api.Object) {
				obj.SetFinalizers([]string{"example.com/f"})
			}); err != nil {
				t.Error(err)
			}
		}
		o := &metav1.DeleteOptions{}
		if precondition {
			o.Preconditions = &metav1.Preconditions{ResourceVersion: new(made.GetResourceVersion())}
		}
		_, gone, err := f.delete("configmaps", "x", o)
		left := f.get("configmaps", "x")
		if gone || left == nil || (left.GetDeletionTimestamp() != nil) == precondition ||
			apierrors.IsConflict(err) != precondition {
			t.Errorf("with a version %t: gone %t, %v, left %v", precondition, gone, err, left)
		}
	}
}

// TestDeletionReleases: what was allocated is given back when the object is gone, and not before.
func TestDeletionReleases(t *testing.T) {
	var log []string
	f := newFixture(t, setup{kind: func(k *api.Kind) { k.Strategy.Allocate = logAllocations(&log) }}, "configmaps")
	m := meta("held")
	m.Finalizers = []string{"example.com/f"}
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("free")})
	log = nil
	for _, name := range []string{"held", "free"} {
		if _, _, err := f.delete("configmaps", name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(log, "; "); got != "release free: stored" {
		t.Errorf("allocations: %s", got)
	}
}
