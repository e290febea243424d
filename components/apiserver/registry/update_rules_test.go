package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func label(key, value string) func(api.Object) {
	return func(obj api.Object) {
		labels := map[string]string{key: value}
		for k, v := range obj.GetLabels() {
			if k != key {
				labels[k] = v
			}
		}
		obj.SetLabels(labels)
	}
}

// TestUpdateVersions: a change is based on the current version, or on none where the kind allows that.
func TestUpdateVersions(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "leases")
	for path, obj := range map[string]api.Object{
		"configmaps": &corev1.ConfigMap{ObjectMeta: meta("x")}, "leases": &coordinationv1.Lease{ObjectMeta: meta("x")},
	} {
		old := f.mustCreate(path, obj).GetResourceVersion()
		now, err := f.update(path, "x", label("a", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if before, after := old, now.GetResourceVersion(); before == after {
			t.Errorf("%s: the resource version stays %s", path, after)
		}
		resource := f.at(path).Resource
		conflict := fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply "+
			"your changes to the latest version and try again", resource, "x")
		needed := fmt.Sprintf("%s %q is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an "+
			"update", resource, "x")
		if path == "configmaps" {
			needed = ""
		}
		for _, c := range []struct {
			version, fails string
			is             func(error) bool
		}{
			{old, conflict, apierrors.IsConflict},
			{"999999", conflict, apierrors.IsConflict},
			{"", needed, apierrors.IsInvalid},
			{"0", needed, apierrors.IsInvalid},
			{"x", `strconv.ParseUint: parsing "x": invalid syntax`, apierrors.IsUnexpectedServerError},
		} {
			_, err := f.update(path, "x", func(obj api.Object) { obj.SetResourceVersion(c.version) })
			f.fails(err, c.fails)
			if code := codeOf(err); err != nil && !c.is(err) && code != 500 {
				t.Errorf("%s at %q: %d", path, c.version, code)
			}
		}
		if _, err := f.update(path, "x", label("a", "2")); err != nil {
			t.Errorf("%s at the current version: %v", path, err)
		}
	}
}

func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// TestUpdateUID: a change that names an identity is for that object alone, and no change gives another one.
func TestUpdateUID(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	made := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	defer f.unwritten()()
	const text = `Operation cannot be fulfilled on configmaps %q: StorageError: invalid object, Code: 4, Key: %s, ` +
		`ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object ` +
		`meta: %s`
	for _, c := range []struct {
		name, fails string
		dryRun      []string
	}{
		{"x", fmt.Sprintf(text, "x", "/registry/configmaps/a/x", made.GetUID()), nil},
		{"x", fmt.Sprintf(text, "x", "/configmaps/a/x", made.GetUID()), []string{metav1.DryRunAll}},
		{"y", fmt.Sprintf(text, "y", "/registry/configmaps/a/y", ""), nil},
	} {
		ch := f.change("configmaps", c.name, label("a", "1"), c.dryRun...)
		ch.UID = "other"
		ch.First = func() (api.Object, error) { return &corev1.ConfigMap{ObjectMeta: meta(c.name)}, nil }
		_, _, err := f.writer("configmaps", "update", c.name).Update(f.ctx(), ch)
		f.fails(err, c.fails)
		if !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err := f.update("configmaps", "x", func(obj api.Object) { obj.SetUID("other") }) // by a patch, say
	f.fails(err, `ConfigMap "x" is invalid: metadata.uid: Invalid value: "other": field is immutable`)
	_, err = f.update("configmaps", "x", func(obj api.Object) { obj.SetUID("") })
	f.fails(err, "")
}

// TestUpdateOfNothing: what isn't written leaves store and resource version as they are, whatever it takes.
func TestUpdateOfNothing(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "deployments")
	m := meta("x", "a", "1")
	m.Finalizers = []string{"example.com/f"}
	made := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"k": "v"}})
	rolled := f.mustCreate("deployments", deployment(meta("x")))
	defer f.unwritten()()
	for name, mutate := range map[string]func(api.Object){
		"the same":            func(api.Object) {},
		"without a version":   func(obj api.Object) { obj.SetResourceVersion("") },
		"without an identity": func(obj api.Object) { obj.SetUID("") },
		"another creation":    func(obj api.Object) { obj.SetCreationTimestamp(metav1.Unix(1, 0)) },
		"another generation":  func(obj api.Object) { obj.SetGeneration(77) },
		"a self link":         func(obj api.Object) { obj.SetSelfLink("/x") },
		"without a namespace": func(obj api.Object) { obj.SetNamespace("") },
		"later times of its managers": func(obj api.Object) {
			entries := slices.Clone(obj.GetManagedFields())
			entries[0].Time = &metav1.Time{Time: entries[0].Time.Add(time.Hour)}
			obj.SetManagedFields(entries)
		},
		"without its managers": func(obj api.Object) { obj.SetManagedFields(nil) },
	} {
		got, err := f.update("configmaps", "x", mutate)
		if err != nil || got.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	got, err := f.update("deployments", "x", func(obj api.Object) {
		obj.(*appsv1.Deployment).Status.Replicas = 3 // which is not for writes of the whole
	})
	if err != nil || got.GetResourceVersion() != rolled.GetResourceVersion() {
		t.Errorf("a status: %v, %v", got, err)
	}
}

// TestGenerations: what raises the generation, and what doesn't.
func TestGenerations(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "deployments", "pods", "nodes")
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	f.mustCreate("deployments", deployment(meta("x")))
	f.mustCreate("pods", pod("x", "n"))
	f.mustCreate("nodes", &corev1.Node{ObjectMeta: meta("x")})
	spec := func(replicas int32) func(api.Object) {
		return func(obj api.Object) { obj.(*appsv1.Deployment).Spec.Replicas = &replicas }
	}
	for _, c := range []struct {
		what, path string
		mutate     func(api.Object)
		want       int64
	}{
		{"a label", "deployments", label("a", "1"), 1},
		{"a spec", "deployments", spec(3), 2},
		{"the same spec", "deployments", spec(3), 2},
		{"a generation", "deployments", func(obj api.Object) { obj.SetGeneration(9) }, 2},
		{"an annotation", "deployments", func(obj api.Object) { obj.SetAnnotations(map[string]string{"n": "1"}) }, 3},
		{"a status", "deployments/status", func(obj api.Object) { obj.(*appsv1.Deployment).Status.Replicas = 3 }, 3},
		{"a spec by way of the status", "deployments/status", spec(5), 3},
		{"spec and status", "deployments", func(obj api.Object) {
			spec(4)(obj)
			obj.(*appsv1.Deployment).Status.Replicas = 9
		}, 4},
		{"data, which is no spec", "configmaps", func(obj api.Object) {
			obj.(*corev1.ConfigMap).Data = map[string]string{"k": "v"}
		}, 0},
		{"an image", "pods", func(obj api.Object) { obj.(*corev1.Pod).Spec.Containers[0].Image = "j" }, 2},
		{"a label of a pod", "pods", label("a", "1"), 2},
		{"a phase", "pods/status", func(obj api.Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodRunning }, 2},
		{"a spec of nodes", "nodes", func(obj api.Object) { obj.(*corev1.Node).Spec.Unschedulable = true }, 0},
	} {
		obj, err := f.update(c.path, "x", c.mutate)
		if err != nil || obj.GetGeneration() != c.want {
			t.Errorf("%s of %s: generation %d, want %d; %v", c.what, c.path, obj.GetGeneration(), c.want, err)
		}
	}
}

// TestStatusSubresource: each side of an object is written through its own endpoint, and has its own managers.
func TestStatusSubresource(t *testing.T) {
	f := newFixture(t, setup{}, "deployments")
	sent := deployment(meta("x", "a", "1"))
	sent.Status.Replicas = 8
	made := f.mustCreate("deployments", sent).(*appsv1.Deployment)
	if made.Status.Replicas != 0 {
		t.Errorf("a creation sets the status: %+v", made.Status)
	}
	all := func(obj api.Object) {
		d := obj.(*appsv1.Deployment)
		d.Labels = map[string]string{"a": "2"}
		d.Annotations = map[string]string{"n": "2"}
		d.Spec.Replicas, d.Status.Replicas = new(int32(2)), 2
	}
	obj, err := f.update("deployments/status", "x", all)
	if err != nil {
		t.Fatal(err)
	}
	d := obj.(*appsv1.Deployment)
	if d.Status.Replicas != 2 || *d.Spec.Replicas != 1 || d.Labels["a"] != "1" || d.Annotations["n"] != "2" {
		t.Errorf("after the status was written: %+v", d)
	}
	if got := managers(d); !slices.Equal(got, []string{"tester Update", "tester Update status"}) {
		t.Errorf("managed by %q", got)
	}
	if obj, err = f.update("deployments", "x", func(obj api.Object) {
		all(obj)
		obj.(*appsv1.Deployment).Status.Replicas = 9
	}); err != nil {
		t.Fatal(err)
	}
	d = obj.(*appsv1.Deployment)
	if d.Status.Replicas != 2 || *d.Spec.Replicas != 2 || d.Labels["a"] != "2" {
		t.Errorf("after all was written: %+v", d)
	}
}

// TestUpdateKeepsIdentity: of the metadata that no update changes clients may leave out, or say, what they like.
func TestUpdateKeepsIdentity(t *testing.T) {
	at, later := metav1.NewTime(began), metav1.NewTime(began.Add(time.Hour))
	old := meta("x")
	old.UID, old.CreationTimestamp = "u", at
	going := old
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &at, new(int64(30))
	for name, c := range map[string]struct{ old, given, want metav1.ObjectMeta }{
		"nothing given":    {going, meta("x"), going},
		"another creation": {old, metav1.ObjectMeta{Name: "x", CreationTimestamp: later}, old},
		"another identity": {old, metav1.ObjectMeta{Name: "x", UID: "v"}, metav1.ObjectMeta{Name: "x", UID: "v",
			CreationTimestamp: at}},
		"another deletion": {going, metav1.ObjectMeta{Name: "x", DeletionTimestamp: &later}, going},
		"a shorter grace, which is then refused": {going,
			metav1.ObjectMeta{Name: "x", DeletionGracePeriodSeconds: new(int64(5))},
			metav1.ObjectMeta{Name: "x", UID: "u", CreationTimestamp: at, DeletionTimestamp: &at,
				DeletionGracePeriodSeconds: new(int64(5))}},
	} {
		got := c.given.DeepCopy()
		keepIdentity(got, &c.old)
		if fmt.Sprint(got) != fmt.Sprint(&c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, got, c.want)
		}
	}
	f := newFixture(t, setup{}, "configmaps")
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	defer f.unwritten()()
	for what, c := range map[string]struct {
		mutate func(api.Object)
		fails  string
	}{
		"a deletion": {func(obj api.Object) { obj.SetDeletionTimestamp(&at) },
			`ConfigMap "x" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": ` +
				`field is immutable`},
		"a grace period": {func(obj api.Object) { obj.SetDeletionGracePeriodSeconds(new(int64(5))) },
			`ConfigMap "x" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 5: ` +
				`field is immutable`},
		"a name": {func(obj api.Object) { obj.SetName("y") },
			"the name of the object (y) does not match the name on the URL (x)"},
		"a namespace": {func(obj api.Object) { obj.SetNamespace("b") },
			"the namespace of the provided object does not match the namespace sent on the request"},
	} {
		if _, err := f.update("configmaps", "x", c.mutate); textOf(err) != c.fails {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCreateOnUpdate: where the kind allows it, what a change doesn't find it creates, if the user may.
func TestCreateOnUpdate(t *testing.T) {
	var seen []string
	f := newFixture(t, setup{admission: admits{mutate: func(a admission.Attributes) error {
		seen = append(seen, string(a.GetOperation()))
		return nil
	}}}, "leases")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no"))
	change := func(name string, may error, dryRun ...string) (*cache.Entry, bool, error) {
		ch := f.change("leases", "x", label("a", "1"), dryRun...)
		ch.Create = &metav1.CreateOptions{DryRun: dryRun}
		ch.MayCreate = func(context.Context) error { return may }
		ch.First = func() (api.Object, error) {
			m := meta(name)
			m.ResourceVersion = "7" // of the object that is gone
			return &coordinationv1.Lease{ObjectMeta: m}, nil
		}
		return f.writer("leases", "update", "x").Update(f.ctx(), ch)
	}
	_, err := f.update("leases", "x", label("a", "1"))
	f.fails(err, `leases.coordination.k8s.io "x" not found`)
	check := f.unwritten()
	_, _, err = change("y", nil)
	f.fails(err, "the name of the object (y) does not match the name on the URL (x)")
	_, _, err = change("x", refused)
	f.fails(err, `leases "x" is forbidden: no`)
	if _, created, err := change("x", nil, metav1.DryRunAll); err != nil || !created {
		t.Errorf("a dry run: created %t, %v", created, err)
	}
	check()
	seen = nil
	for i, want := range []string{"CREATE", "UPDATE"} {
		e, created, err := change("x", nil)
		if err != nil || created != (i == 0) || e.Object.GetUID() == "" || !slices.Equal(seen, []string{want}) {
			t.Errorf("created %t, %v, admission saw %q", created, err, seen)
		}
		seen = nil
	}
}

// TestUpdateRaces: a change that another writer overtakes is made again of what that left; one of what goes or comes
// meanwhile does what is then to be done.
func TestUpdateRaces(t *testing.T) {
	f := newFixture(t, setup{}, "leases")
	f.mustCreate("leases", &coordinationv1.Lease{ObjectMeta: meta("x")})
	tries := 0
	obj, err := f.update("leases", "x", func(obj api.Object) {
		if tries++; tries < 3 {
			if _, err := f.update("leases", "x", label(fmt.Sprint("other", tries), "1")); err != nil {
				t.Error(err)
			}
		}
		label("mine", "1")(obj)
	})
	if err != nil || tries != 3 || len(obj.GetLabels()) != 3 {
		t.Errorf("after %d tries %v, %v", tries, obj, err)
	}
	gone := false
	_, err = f.update("leases", "x", func(obj api.Object) {
		if !gone {
			if _, gone, err = f.delete("leases", "x", nil); !gone || err != nil {
				t.Error(err)
			}
		}
		label("late", "1")(obj)
	})
	f.fails(err, `leases.coordination.k8s.io "x" not found`)
	ch := f.change("leases", "x", label("late", "1"))
	ch.Create = &metav1.CreateOptions{}
	ch.First = func() (api.Object, error) {
		f.mustCreate("leases", &coordinationv1.Lease{ObjectMeta: meta("x", "theirs", "1")})
		return &coordinationv1.Lease{ObjectMeta: meta("x", "mine", "1")}, nil
	}
	e, created, err := f.writer("leases", "update", "x").Update(f.ctx(), ch)
	if err != nil || created || strings.Join(keys(e.Object.GetLabels()), " ") != "late theirs" {
		t.Errorf("after another's creation: created %t, %v, %v", created, e, err)
	}
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestUpdateDryRun: the answer is that of the write, and nothing is stored, removed or allocated.
func TestUpdateDryRun(t *testing.T) {
	var outcomes []api.Outcome
	f := newFixture(t, setup{kind: func(k *api.Kind) {
		k.Strategy.Allocate = func(_ context.Context, _, _ api.Object, dry bool) (func(api.Outcome), error) {
			return func(o api.Outcome) {
				if dry {
					outcomes = append(outcomes, o)
				}
			}, nil
		}
	}}, "configmaps")
	m := meta("x")
	m.Finalizers = []string{"example.com/f"}
	made := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
	check := f.unwritten()
	obj, err := f.update("configmaps", "x", label("a", "1"), metav1.DryRunAll)
	if err != nil || obj.GetLabels()["a"] != "1" || obj.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("got %v, %v", obj, err)
	}
	_, err = f.update("configmaps", "none", label("a", "1"), metav1.DryRunAll)
	f.fails(err, `configmaps "none" not found`)
	check()
	if _, _, err := f.delete("configmaps", "x", nil); err != nil {
		t.Fatal(err)
	}
	check = f.unwritten()
	obj, err = f.update("configmaps", "x", func(obj api.Object) { obj.SetFinalizers(nil) }, metav1.DryRunAll)
	if err != nil || len(obj.GetFinalizers()) > 0 || f.get("configmaps", "x") == nil {
		t.Errorf("without finalizers: %v, %v", obj, err)
	}
	check()
	if !slices.Equal(outcomes, []api.Outcome{api.NotStored, api.NotStored}) {
		t.Errorf("allocations end %v", outcomes)
	}
}

// TestLastFinalizer: an object that only waits for its finalizers goes with the last one, and gives back what it had.
func TestLastFinalizer(t *testing.T) {
	var released []string
	f := newFixture(t, setup{kind: func(k *api.Kind) {
		if k.Resource == "configmaps" {
			k.Strategy.Allocate = func(_ context.Context, obj, old api.Object, _ bool) (func(api.Outcome), error) {
				return func(o api.Outcome) {
					if obj == nil && o == api.Stored {
						released = append(released, old.GetName())
					}
				}, nil
			}
		}
	}}, "configmaps", "pods")
	m := meta("x")
	m.Finalizers = []string{"example.com/f", "example.com/g"}
	running := pod("x", "n")
	running.Finalizers = m.Finalizers
	f.mustCreate("pods", running)
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
	without := func(n int) func(api.Object) {
		return func(obj api.Object) { obj.SetFinalizers(obj.GetFinalizers()[n:]) }
	}
	for _, path := range []string{"configmaps", "pods"} {
		if _, gone, err := f.delete(path, "x", nil); gone || err != nil {
			t.Fatal(path, gone, err)
		}
		obj, err := f.update(path, "x", without(1))
		if err != nil || len(obj.GetFinalizers()) != 1 || f.get(path, "x") == nil {
			t.Errorf("%s: with a finalizer left: %v, %v", path, obj, err)
		}
		obj, err = f.update(path, "x", without(1))
		if err != nil || len(obj.GetFinalizers()) != 0 || obj.GetDeletionTimestamp() == nil {
			t.Errorf("%s: with none left: %v, %v", path, obj, err)
		}
		if stays := f.get(path, "x") != nil; stays != (path == "pods") { // which the kubelet still has to stop
			t.Errorf("%s: stays %t", path, stays)
		}
		_, err = f.update(path, "x", func(obj api.Object) { obj.SetFinalizers([]string{"example.com/h"}) })
		if want := map[string]string{"configmaps": `configmaps "x" not found`, "pods": `Pod "x" is invalid: ` +
			`metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found ` +
			`new ` +
			`finalizers []string{"example.com/h"}`}[path]; !strings.HasPrefix(textOf(err), want) {
			t.Errorf("%s: a late finalizer: %v", path, err)
		}
	}
	if !slices.Equal(released, []string{"x"}) {
		t.Errorf("released %q", released)
	}
}
