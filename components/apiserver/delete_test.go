package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	policiesv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

func TestFinalizersHold(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	create(t, client, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/wait"}}})
	if err := maps.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cm, err := maps.Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || cm.DeletionTimestamp == nil || *cm.DeletionGracePeriodSeconds != 0 {
		t.Fatalf("got %+v, %v", cm, err)
	}
	add := []byte(`{"metadata":{"finalizers":["example.com/wait","example.com/more"]}}`)
	if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, add,
		metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a finalizer was added while deleting: %v", err)
	}
	if _, err := maps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v", err)
	}
}

func TestPropagationPolicies(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	for policy, want := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationBackground: "",
	} {
		create(t, client, configMap("p", nil))
		if err := maps.Delete(t.Context(), "p", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		cm, err := maps.Get(t.Context(), "p", metav1.GetOptions{})
		if want == "" {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", policy, err)
			}
			continue
		}
		if err != nil || len(cm.Finalizers) != 1 || cm.Finalizers[0] != want {
			t.Errorf("%s: %v, %v", policy, cm, err)
		}
		cm.Finalizers = nil
		if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestFinalizersOfDeletions: events ask nothing of the collector, and finalizers that stand there twice stay if they
// are those that are wanted.
func TestFinalizersOfDeletions(t *testing.T) {
	client := start(t).client(t)
	events := client.EventsV1().Events("default")
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, EventTime: metav1.NowMicro(), Action: "a",
		Reason: "r", Type: "Normal",
		ReportingController: "example.com/c", ReportingInstance: "i",
	}
	if _, err := events.Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	orphan := metav1.DeletePropagationOrphan
	if err := events.Delete(t.Context(), "e", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	if _, err := events.Get(t.Context(), "e", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the event is still there: %v", err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	for name, tc := range map[string]struct{ has, want []string }{
		"twice": {[]string{"example.com/x", "example.com/x", "orphan"},
			[]string{"example.com/x", "example.com/x", "orphan"}},
	} {
		m := configMap(name, nil)
		m.Finalizers = tc.has
		create(t, client, m)
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || !slices.Equal(got.Finalizers, tc.want) {
			t.Errorf("%s: %v, %v", name, got.Finalizers, err)
		}
	}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestPodsAreDeletedGracefully(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	pods := f.client(t).CoreV1().Pods("default")
	for _, p := range []*corev1.Pod{pod("waiting", ""), pod("placed", "n1")} {
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pods.Get(t.Context(), "waiting", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod without a node waits: %v", err)
	}
	placed, err := pods.Get(t.Context(), "placed", metav1.GetOptions{})
	if err != nil || placed.DeletionTimestamp == nil || *placed.DeletionGracePeriodSeconds != 30 {
		t.Fatalf("got %+v, %v", placed, err)
	}
	short := int64(5)
	if err := pods.Delete(t.Context(), "placed", metav1.DeleteOptions{GracePeriodSeconds: &short}); err != nil {
		t.Fatal(err)
	}
	if placed, err = pods.Get(t.Context(), "placed", metav1.GetOptions{}); err != nil ||
		*placed.DeletionGracePeriodSeconds != 5 {
		t.Errorf("a shorter grace: %+v, %v", placed, err)
	}
	now := int64(0)
	if err := pods.Delete(t.Context(), "placed", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(t.Context(), "placed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after no grace: %v", err)
	}
}

func TestDeleteCollection(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	for _, name := range []string{"a", "b", "c"} {
		cm := configMap(name, nil)
		cm.Labels = map[string]string{"odd": map[bool]string{true: "yes", false: "no"}[name != "b"]}
		create(t, client, cm)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "odd=yes"}); err != nil {
		t.Fatal(err)
	}
	left, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "b" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestNamespaceWaitsForItsFinalizer(t *testing.T) {
	client := start(t).client(t)
	namespaces := client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), "ns", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ns, err := namespaces.Get(t.Context(), "ns", metav1.GetOptions{})
	if err != nil || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil {
		t.Fatalf("got %+v, %v", ns, err)
	}
	if _, err := client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("a", nil),
		metav1.CreateOptions{}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("create in a terminating namespace: %v", err)
	}
	ns.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "ns", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after finalizing: %v", err)
	}
}

// markUnheld makes a namespace that nothing holds, and deletes it, which only marks it.
func markUnheld(t *testing.T, spaces typedcorev1.NamespaceInterface) *corev1.Namespace {
	t.Helper()
	free, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	free.Spec.Finalizers = nil
	if _, err := spaces.Finalize(t.Context(), free, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := spaces.Delete(t.Context(), "free", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return free
}

// TestNamespaceIsMarkedFirst: also one that nothing holds goes with the second deletion only.
func TestNamespaceIsMarkedFirst(t *testing.T) {
	client := start(t).client(t)
	spaces := client.CoreV1().Namespaces()
	free := markUnheld(t, spaces)
	got, err := spaces.Get(t.Context(), "free", metav1.GetOptions{})
	if err != nil || got.DeletionTimestamp == nil || got.DeletionGracePeriodSeconds != nil ||
		got.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("after the first deletion: %+v, %v", got, err)
	}
	last := &corev1.Namespace{}
	if err := client.CoreV1().RESTClient().Delete().Resource("namespaces").Name("free").Do(t.Context()).Into(
		last); err != nil || last.UID != free.UID {
		t.Fatalf("the last deletion answers %+v, %v", last, err)
	}
	if _, err := spaces.Get(t.Context(), "free", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the second deletion: %v", err)
	}
}

func TestDeleteOptionsOfAnyVersion(t *testing.T) {
	f := start(t)
	maps := f.client(t).CoreV1().ConfigMaps("default")
	for _, test := range []struct{ media, body, want string }{
		{"application/json", `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, ""},
		{"application/json", `{"kind":"DeleteOptions","apiVersion":"example.com/v1","unknown":1}`, ""},
		{"application/yaml", "kind: DeleteOptions\napiVersion: example.com/v1\n", ""},
		{"application/json", `{}`, ""},
		{"application/json", `{"kind":"Pod","apiVersion":"v1"}`, `no kind "Pod" is registered for version "v1"`},
		{"application/json", `{"kind":"CreateOptions","apiVersion":"v1"}`,
			"converting (v1.CreateOptions) to (v1.DeleteOptions)"},
		{"application/json", `{"kind":"DeleteOptions","apiVersion":"a/b/c"}`, "unexpected GroupVersion string: a/b/c"},
		{"application/json", `{"gracePeriodSeconds":"x"}`, "DeleteOptions.gracePeriodSeconds of type int64"},
		{"application/vnd.kubernetes.protobuf", "x", "expected prefix [107 56 115 0]"},
	} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
			metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		err := f.client(t).CoreV1().RESTClient().Delete().Resource("configmaps").Namespace("default").Name("c").
			SetHeader("Content-Type", test.media).Body([]byte(test.body)).Do(t.Context()).Error()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.body, err)
		case test.want != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v; want a bad request that names %q", test.body, err, test.want)
		}
	}
}

// TestTerminatingNamespace: the first deletion waits for dependents also where they are only not to be orphaned. While
// something is left to be done then, further ones change nothing, whatever they ask for, and are shown to no admission.
func TestTerminatingNamespace(t *testing.T) {
	client := start(t).client(t)
	spaces := client.CoreV1().Namespaces()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labelled("never").MatchLabels}}
	if _, err := spaces.Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	//lint:ignore SA1019 clients that are older send it
	if err := spaces.Delete(t.Context(), "ns", metav1.DeleteOptions{OrphanDependents: new(false)}); err != nil {
		t.Fatal(err)
	}
	ns, err := spaces.Get(t.Context(), "ns", metav1.GetOptions{})
	if err != nil || !slices.Equal(ns.Finalizers, []string{metav1.FinalizerDeleteDependents}) {
		t.Fatalf("got %v, %v", ns.Finalizers, err)
	}
	enforce(t, client, "namespaces", policy{name: "never", rules: []policiesv1.Validation{{Expression: "false"}}})
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
		again := &corev1.Namespace{}
		o := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan), DryRun: dry}
		if err := client.CoreV1().RESTClient().Delete().Resource("namespaces").Name("ns").Body(&o).Do(t.Context()).Into(
			again); err != nil {
			t.Errorf("again, dry %v: %v", dry, err)
		}
		if again.ResourceVersion != ns.ResourceVersion || !slices.Equal(again.Finalizers, ns.Finalizers) {
			t.Errorf("again, dry %v: %+v", dry, again.ObjectMeta)
		}
	}
}

// TestChangeRemovesWhatIsDeleted: whatever is changed of an object that nothing keeps from going, it goes.
func TestChangeRemovesWhatIsDeleted(t *testing.T) {
	client := start(t).client(t)
	spaces := client.CoreV1().Namespaces()
	markUnheld(t, spaces)
	got, err := spaces.Patch(t.Context(), "free", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{})
	if err != nil || got.Labels["a"] != "b" {
		t.Errorf("patched: %+v, %v", got, err)
	}
	if _, err := spaces.Get(t.Context(), "free", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a change: %v", err)
	}
}

// TestDryDeletionAgain: a deletion that would change nothing of one under way is none that fails.
func TestDryDeletionAgain(t *testing.T) {
	client := start(t, withoutServiceAccounts).client(t)
	pods := client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod("p", "n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
		if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{DryRun: dry}); err != nil {
			t.Errorf("dry %v: %v", dry, err)
		}
	}
}
