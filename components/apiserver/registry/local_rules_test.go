package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

var (
	configMapsOf = corev1.Resource("configmaps")
	widgets      = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

// TestLocalReaders: all readers find the same; what is not served is answered as by a server that doesn't serve it.
func TestLocalReaders(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "namespaces")
	for _, name := range []string{"x", "y"} {
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta(name)})
	}
	f.mustCreate("namespaces", &corev1.Namespace{ObjectMeta: meta("a")})
	f.settle("configmaps")
	f.settle("namespaces")
	l := f.Local()
	for what, r := range map[string]objects.Reader{"local": l, "strict": StrictReader{l}, "live": LiveReader{l}} {
		for name, read := range map[string]func(context.Context, schema.GroupResource, string, string) (api.Object,
			error){"get": r.Get, "live": r.Live} {
			obj, err := read(f.ctx(), configMapsOf, "a", "x")
			if err != nil || obj.GetName() != "x" || obj.GetResourceVersion() == "" {
				t.Errorf("%s: %s: %v, %v", what, name, obj, err)
			}
			if obj, err = read(f.ctx(), namespaces, "", "a"); err != nil || obj.GetName() != "a" {
				t.Errorf("%s: %s of a cluster's: %v, %v", what, name, obj, err)
			}
			_, err = read(f.ctx(), configMapsOf, "b", "x")
			f.fails(err, `configmaps "x" not found`)
			_, err = read(f.ctx(), widgets, "a", "x")
			f.fails(err, "the server could not find the requested resource (get widgets.example.com x)")
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %s: %v", what, name, err)
			}
		}
		for namespace, want := range map[string]int{"a": 2, "": 2, "b": 0} {
			if list, err := r.List(f.ctx(), configMapsOf, namespace); err != nil || len(list) != want {
				t.Errorf("%s: listed %v in %q, %v", what, list, namespace, err)
			}
		}
		_, err := r.List(f.ctx(), widgets, "")
		f.fails(err, "the server could not find the requested resource (get widgets.example.com)")
	}
}

// TestLiveReaderSeesWhatIsStored, though the caches don't know of it yet.
func TestLiveReaderSeesWhatIsStored(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	live := LiveReader{f.Local()}
	for i := range 20 {
		m := meta("x" + strings.Repeat("x", i))
		f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: m})
		if _, err := live.Get(f.ctx(), configMapsOf, "a", m.Name); err != nil {
			t.Error(err)
		}
		if list, err := live.List(f.ctx(), configMapsOf, "a"); err != nil || len(list) != i+1 {
			t.Errorf("listed %d of %d, %v", len(list), i+1, err)
		}
	}
}

// TestLocalWriters: the server's own writes are tracked as its own, and keep to what they are given.
func TestLocalWriters(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "nodes", "pods", "flowschemas")
	l := f.Local()
	sent := &corev1.ConfigMap{ObjectMeta: meta("x"), Data: map[string]string{"k": "v"}}
	sent.Namespace = "a"
	before := sent.DeepCopy()
	obj, err := l.Create(f.ctx(), configMapsOf, sent)
	if err != nil || obj.GetUID() == "" || !slices.Equal(managers(obj), []string{"kube-apiserver Update"}) {
		t.Errorf("created %v, %v", obj, err)
	}
	if sent.UID != before.UID || len(sent.ManagedFields) > 0 {
		t.Errorf("what was given is changed: %v", sent)
	}
	_, err = l.Create(f.ctx(), configMapsOf, sent)
	f.fails(err, `configmaps "x" already exists`)
	_, err = l.Create(f.ctx(), widgets, sent)
	f.fails(err, "the server could not find the requested resource (get widgets.example.com x)")
	obj, err = l.Update(f.ctx(), configMapsOf, "a", "x", func(obj api.Object) (api.Object, error) {
		label("a", "1")(obj)
		return obj, nil
	})
	if err != nil || obj.GetLabels()["a"] != "1" {
		t.Errorf("updated %v, %v", obj, err)
	}
	check := f.unwritten()
	same := func(obj api.Object) (api.Object, error) { return obj, nil }
	if again, err := l.Update(f.ctx(), configMapsOf, "a", "x", same); err != nil ||
		again.GetResourceVersion() != obj.GetResourceVersion() {
		t.Errorf("updated by nothing: %v, %v", again, err)
	}
	_, err = l.Update(f.ctx(), configMapsOf, "a", "x", func(api.Object) (api.Object, error) {
		return nil, errors.New("given up")
	})
	f.fails(err, "given up")
	_, err = l.Update(f.ctx(), configMapsOf, "a", "none", same)
	f.fails(err, `configmaps "none" not found`)
	_, err = l.UpdateStatus(f.ctx(), configMapsOf, "a", "x", same)
	f.fails(err, `configmaps/status "x" not found`)
	f.fails(l.Delete(f.ctx(), configMapsOf, "a", "x", "other"), `Operation cannot be fulfilled on ConfigMap "x": the `+
		`UID in the precondition (other) does not match the UID in record (`+string(obj.GetUID())+`). The object `+
		`might `+
		`have been deleted and then recreated`)
	check()
	f.fails(l.Delete(f.ctx(), configMapsOf, "a", "x", obj.GetUID()), "")
	f.fails(l.Delete(f.ctx(), configMapsOf, "a", "x", ""), `configmaps "x" not found`)
	flows := flowcontrolv1.Resource("flowschemas")
	obj, err = l.Create(f.ctx(), flows, &flowcontrolv1.FlowSchema{ObjectMeta: meta("x"),
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "catch-all"},
			MatchingPrecedence:         9000,
		}})
	if want := []string{"api-priority-and-fairness-config-producer-v1 Update"}; err != nil ||
		!slices.Equal(managers(obj), want) {
		t.Errorf("of priority and fairness: %v, %v", obj, err)
	}
}

// TestLocalStatus: the status is written and applied under its own managers, and nothing of an action's is tracked.
func TestLocalStatus(t *testing.T) {
	f := newFixture(t, setup{}, "pods", "nodes")
	f.mustCreate("pods", pod("p", "n"))
	l, pods := f.Local(), corev1.Resource("pods")
	obj, err := l.Update(f.ctx(), pods, "a", "p", func(obj api.Object) (api.Object, error) {
		obj.(*corev1.Pod).Spec.Tolerations = append(obj.(*corev1.Pod).Spec.Tolerations,
			corev1.Toleration{Key: "k", Operator: "Exists"})
		return obj, nil
	})
	if err != nil || !slices.Equal(managers(obj), []string{"tester Update"}) {
		t.Errorf("after an action: %v, %v", managers(obj), err)
	}
	obj, err = l.UpdateStatus(f.ctx(), pods, "a", "p", func(obj api.Object) (api.Object, error) {
		obj.(*corev1.Pod).Status.Message = "m"
		return obj, nil
	})
	if err != nil || !slices.Equal(managers(obj), []string{"kube-apiserver Update status", "tester Update"}) {
		t.Errorf("after a status: %v, %v", managers(obj), err)
	}
	config := func(reason string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p",
			"namespace": "a"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "DisruptionTarget", "status": "True", "reason": reason}}}}
	}
	apply := func(reason string) api.Object {
		t.Helper()
		content := config(reason)
		out, err := l.ApplyStatus(f.ctx(), pods, "a", "p", "evictor", &content)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := apply("Evicted")
	want := []string{"evictor Apply status", "kube-apiserver Update status", "tester Update"}
	if c := first.(*corev1.Pod).Status.Conditions; !slices.Equal(managers(first), want) || len(c) == 0 ||
		c[len(c)-1].Reason != "Evicted" {
		t.Errorf("applied %v by %v", c, managers(first))
	}
	if again := apply("Evicted"); again.GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("applied again: %s, then %s", first.GetResourceVersion(), again.GetResourceVersion())
	}
	if other := apply("Other"); other.GetResourceVersion() == first.GetResourceVersion() {
		t.Error("another reason isn't written")
	}
}

// TestDeletePod: options are checked as those of a request are.
func TestDeletePod(t *testing.T) {
	f := newFixture(t, setup{}, "pods")
	f.mustCreate("pods", pod("p", "n"))
	l := f.Local()
	odd := metav1.DeletionPropagation("Odd")
	f.fails(l.DeletePod(f.ctx(), "a", "p", &metav1.DeleteOptions{PropagationPolicy: &odd}),
		`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Odd": supported values: `+
			`"Foreground", "Background", "Orphan", "nil"`)
	options := &metav1.DeleteOptions{GracePeriodSeconds: new(int64(-3))}
	f.fails(l.DeletePod(f.ctx(), "a", "p", options), "")
	if *options.GracePeriodSeconds != -3 {
		t.Error("the options are changed")
	}
	if p := f.get("pods", "p"); p == nil || *p.GetDeletionGracePeriodSeconds() != 1 {
		t.Errorf("left %v", p)
	}
	f.fails(l.DeletePod(f.ctx(), "a", "none", &metav1.DeleteOptions{}), `pods "none" not found`)
}

// TestFeedOfNothing: what isn't served has no objects, and stays so.
func TestFeedOfNothing(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	ctx, stop := context.WithCancel(t.Context())
	synced := 0
	err := f.Local().Feed(ctx, widgets, func(old, new api.Object) { t.Errorf("told %v, %v", old, new) }, func() {
		synced++
		stop()
	})
	if err != nil || synced != 1 {
		t.Errorf("synced %d times, %v", synced, err)
	}
}

// TestFeed: what exists is told before it is said that it is known, then every change once and in order.
func TestFeed(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	f.settle("configmaps")
	told := make(chan string, 20)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Local().Feed(ctx, configMapsOf, func(old, new api.Object) {
			switch {
			case new == nil:
				told <- "deleted " + old.GetName()
			case old == nil:
				told <- "added " + new.GetName()
			default:
				told <- "changed " + new.GetName() + " to " + new.GetLabels()["a"]
			}
		}, func() { told <- "synced" })
	}()
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := <-told; got != w {
				t.Errorf("told %q, want %q", got, w)
			}
		}
	}
	expect("added x", "synced")
	for _, value := range []string{"1", "2"} {
		if _, err := f.update("configmaps", "x", label("a", value)); err != nil {
			t.Fatal(err)
		}
	}
	f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("y")})
	if _, _, err := f.delete("configmaps", "x", nil); err != nil {
		t.Fatal(err)
	}
	expect("changed x to 1", "changed x to 2", "added y", "deleted x")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
