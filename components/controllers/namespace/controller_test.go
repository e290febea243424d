package namespace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func show(all []v1.NamespaceCondition) []string {
	var lines []string
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}

var allWell = []string{
	"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered All resources successfully discovered",
	"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions All legacy kube types successfully parsed",
	"NamespaceDeletionContentFailure False ContentDeleted All content successfully deleted, may be waiting on " +
		"finalization",
	"NamespaceContentRemaining False ContentRemoved All content successfully removed",
	"NamespaceFinalizersRemaining False ContentHasNoFinalizers All content-preserving finalizers finished",
}

// but replaces the line of a condition's type.
func but(lines ...string) []string {
	all := slices.Clone(allWell)
	for _, line := range lines {
		kind, _, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, kind+" ") })
		all[at] = line
	}
	return all
}

func TestConditionTexts(t *testing.T) {
	maps := v1.SchemeGroupVersion.WithResource("configmaps")
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for name, c := range map[string]struct {
		o    outcome
		want []string
	}{
		"nothing left": {outcome{}, allWell},
		"one kind, held": {outcome{remaining: map[schema.GroupVersionResource]int{maps: 1},
			finalizers: map[string]int{"x.dev/a": 1}},
			but("NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: configmaps. has 1 resource "+
				"instances",
				"NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: "+
					"x.dev/a in 1 resource instances")},
		"several, in order": {outcome{remaining: map[schema.GroupVersionResource]int{deployments: 3, maps: 2},
			finalizers: map[string]int{"x.dev/b": 1, "x.dev/a": 4}},
			but("NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: configmaps. has 2 resource "+
				"instances, deployments.apps has 3 resource instances",
				"NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: "+
					"x.dev/a in 4 resource instances, x.dev/b in 1 resource instances")},
		"deletion fails": {outcome{deletion: []string{"b: no", "a: no"}},
			but("NamespaceDeletionContentFailure True ContentDeletionFailed Failed to delete all resource types, 2 " +
				"remaining: a: no, b: no")},
		"discovery fails": {outcome{discovery: []string{"down"}},
			but("NamespaceDeletionDiscoveryFailure True DiscoveryFailed down")},
		"a strange group": {outcome{parsing: []string{"what is that"}},
			but("NamespaceDeletionGroupVersionParsingFailure True GroupVersionParsingFailed what is that")},
		"only pods left": {outcome{pods: 2}, allWell},
	} {
		if got := show(conditions(nil, &c.o, metav1.Time{})); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		wait, age time.Duration
		objects   int
		want      time.Duration
	}{
		{0, 0, 1, recheck}, {0, 10 * time.Second, 1, recheck}, {0, 11 * time.Second, 1, slowRecheck},
		{30 * time.Second, 40 * time.Second, 1, recheck}, {30 * time.Second, 41 * time.Second, 1, slowRecheck},
		{0, 0, 150_000, 150_000 * eachRecheck}, {0, time.Minute, 150_000, 150_000 * eachRecheck},
		{0, time.Minute, 10_000, slowRecheck},
	} {
		if got := next(c.wait, c.age, c.objects); got != c.want {
			t.Errorf("waiting %v for %v, %d objects: %v, want %v", c.age, c.wait, c.objects, got, c.want)
		}
	}
}

func TestGroupsThatCannotBeParsed(t *testing.T) {
	lists := append(served(), &metav1.APIResourceList{GroupVersion: "a/b/c"})
	subject := content{discovery: discovered{lists: lists}, metadata: client(object("v1", "ConfigMap", "c"))}
	o := &outcome{}
	found := subject.discover(o)
	var names []string
	for _, r := range found {
		names = append(names, fmt.Sprint(r.Resource, r.canDeleteCollection))
	}
	if fmt.Sprint(names) != "[configmapstrue podstrue thingsfalse]" || len(o.parsing) != 1 ||
		o.parsing[0] != "unexpected GroupVersion string: a/b/c" || !o.failed() {
		t.Errorf("%v, %+v", names, o)
	}
}

// TestProblems: what is gone or can't be deleted at all is no problem; anything else is, and nothing follows it.
func TestProblems(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	for name, c := range map[string]struct {
		verb string
		err  error
		want string
	}{
		"gone meanwhile": {"delete-collection", apierrors.NewNotFound(maps, "c"), "[]"},
		"no such verb":   {"delete-collection", apierrors.NewMethodNotSupported(maps, "deletecollection"), "[]"},
		"forbidden":      {"delete-collection", errors.New("no"), "[/v1, Resource=configmaps: no]"},
		"can't be listed": {"list", errors.New("down"),
			"[/v1, Resource=configmaps: down /v1, Resource=pods: down x.io/v1, Resource=things: down]"},
		"kind not served":  {"list", apierrors.NewNotFound(maps, ""), "[]"},
		"listing not done": {"list", apierrors.NewMethodNotSupported(maps, "list"), "[]"},
	} {
		fakes := client(object("v1", "ConfigMap", "c"))
		fakes.PrependReactor(c.verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil,
				c.err
		})
		subject := content{discovery: discovered{lists: served()}, metadata: fakes}
		o, _ := subject.remove(t.Context(), "ns", nil)
		slices.Sort(o.deletion)
		want := c.want
		if c.verb == "list" && c.err.Error() == "down" {
			want = "[/v1, Resource=pods: down]" // pods come first, and hold up the rest
		}
		if got := fmt.Sprint(o.deletion); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func deleting(phase v1.NamespacePhase, finalizers ...v1.FinalizerName) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", DeletionTimestamp: ptr.To(metav1.Now()),
		Finalizers: []string{"x.dev/ns"}}, Spec: v1.NamespaceSpec{Finalizers: finalizers},
		Status: v1.NamespaceStatus{Phase: phase}}
}

// start runs the controller; finalize keeps what it finalizes.
func start(t *testing.T, objects *fake.FakeMetadataClient, ns ...runtime.Object) *kubefake.Clientset {
	t.Helper()
	kube := runnertest.NewClient(ns...)
	kube.PrependReactor("create", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "finalize" {
			return false, nil, nil
		}
		created, _ := a.(clienttesting.CreateAction)
		given, _ := created.GetObject().(*v1.Namespace)
		return true, given, kube.Tracker().Update(a.GetResource(), given, "")
	})
	runnertest.Start(t, kube, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, discovered{lists: served()}, objects, time.Minute)
	})
	return kube
}

func current(t *testing.T, kube *kubefake.Clientset) *v1.Namespace {
	t.Helper()
	ns, err := kube.CoreV1().Namespaces().Get(t.Context(), "ns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestEmptyNamespaceGoes: even one that had no problem shows its conditions, and keeps other finalizers.
func TestEmptyNamespaceGoes(t *testing.T) {
	kube := start(t, client(object("x.io/v1", "Thing", "t")), deleting(v1.NamespaceActive, v1.FinalizerKubernetes,
		"x.dev/other"))
	runnertest.Eventually(t, func() (bool, string) {
		ns := current(t, kube)
		return fmt.Sprint(ns.Spec.Finalizers) == "[x.dev/other]" && ns.Status.Phase == v1.NamespaceTerminating &&
			slices.Equal(show(ns.Status.Conditions), allWell) && len(ns.Finalizers) == 1, fmt.Sprint(ns)
	})
}

// TestWaitsForContent keeps the namespace, with its reasons, until the last object has gone.
func TestWaitsForContent(t *testing.T) {
	objects := client(object("v1", "Pod", "p", "x.dev/p"), object("v1", "ConfigMap", "c", "x.dev/c"))
	objects.PrependReactor("delete-collection", "*", func(clienttesting.Action) (bool, runtime.Object,
		error) {
		return true, nil, nil
	})
	kube := start(t, objects, deleting(v1.NamespaceActive, v1.FinalizerKubernetes))
	expect := func(conditions []string, finalizers string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			ns := current(t, kube)
			return slices.Equal(show(ns.Status.Conditions), conditions) && fmt.Sprint(ns.Spec.Finalizers) == finalizers,
				fmt.Sprint(show(ns.Status.Conditions), ns.Spec.Finalizers)
		})
	}
	expect(allWell, "[kubernetes]") // a pod is left
	if got := verbs(objects); strings.Contains(got, "configmaps") {
		t.Errorf("other content was touched: %s", got)
	}
	gone := func(resource, name string) {
		t.Helper()
		if err := objects.Tracker().Delete(v1.SchemeGroupVersion.WithResource(resource), "ns", name); err != nil {
			t.Fatal(err)
		}
	}
	gone("pods", "p")
	expect(but("NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: configmaps. has 1 "+
		"resource instances",
		"NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: "+
			"x.dev/c "+
			"in 1 resource instances"), "[kubernetes]")
	gone("configmaps", "c")
	expect(allWell, "[]")
}

// TestLeftAlone: a namespace that stays, or that others have to let go, keeps its content.
func TestLeftAlone(t *testing.T) {
	for name, ns := range map[string]*v1.Namespace{
		"not being deleted": {ObjectMeta: metav1.ObjectMeta{Name: "ns"},
			Spec: v1.NamespaceSpec{Finalizers: []v1.FinalizerName{"kubernetes"}}},
		"finalized already":   deleting(v1.NamespaceTerminating),
		"only of others left": deleting(v1.NamespaceTerminating, "x.dev/other"),
	} {
		objects, kube := client(object("v1", "ConfigMap", "c")), runnertest.NewClient(ns)
		var controller *Controller
		runnertest.Start(t, kube, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
			made, err := New(env, discovered{lists: served()}, objects, time.Minute)
			controller = made
			return made, err
		})
		if err := controller.reconcile(t.Context(), "ns"); err != nil || verbs(objects) != "" {
			t.Errorf("%s: %s, %v", name, verbs(objects), err)
		}
		if err := controller.reconcile(t.Context(), "other"); err != nil {
			t.Errorf("%s: one that is gone: %v", name, err)
		}
	}
}

func TestGrace(t *testing.T) {
	pod := func(name string, seconds *int64) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, DeletionGracePeriodSeconds: seconds}}
	}
	kube := runnertest.NewClient(pod("going", ptr.To[int64](30)), pod("staying", nil))
	var controller *Controller
	runnertest.Start(t, kube, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		made, err := New(env, discovered{}, client(), time.Minute)
		controller = made
		return made, err
	})
	for name, want := range map[string]time.Duration{"going": 30 * time.Second, "staying": 0, "gone": 0} {
		if got := controller.grace("ns")(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
