package pods

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/expectations"
)

var owner = &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "o"}}

func named(i int) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u",
		i))}}
}

// control returns a Control whose calls of verb fail with what fail says of the pod's name.
func control(verb string, fail func(name string) error, objects ...runtime.Object) (Control, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	client.PrependReactor(verb, "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := ""
		switch a := a.(type) {
		case clienttesting.CreateAction:
			if pod, ok := a.GetObject().(*v1.Pod); ok {
				name = pod.Name
			}
		case clienttesting.DeleteAction:
			name = a.GetName()
		}
		err := fail(name)
		return err != nil, nil, err
	})
	return Control{Client: client, Events: record.NewFakeRecorder(100),
		Pending: expectations.New(clocktesting.NewFakeClock(time.Unix(0, 0)))}, client
}

func events(c Control) string {
	recorder, ok := c.Events.(*record.FakeRecorder)
	if !ok {
		return ""
	}
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

var (
	resource    = schema.GroupResource{Resource: "pods"}
	errQuota    = apierrors.NewForbidden(resource, "p1", errors.New("exceeded quota"))
	terminating = func() error {
		err := apierrors.NewForbidden(resource, "p0", errors.New("namespace is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
		return err
	}()
)

func none(string) error { return nil }

func only(name string, err error) func(string) error {
	return func(n string) error {
		if n == name {
			return err
		}
		return nil
	}
}

// TestControlCreate: what was created is awaited, and nothing else.
func TestControlCreate(t *testing.T) {
	for name, c := range map[string]struct {
		count  int
		fail   func(string) error
		made   int // pods afterwards, which the informer has yet to show
		asked  int // requests, if not as many as pods were made
		err    error
		events string
	}{
		"none": {count: 0, fail: none},
		"three": {count: 3, fail: none, made: 3,
			events: "Normal SuccessfulCreate Created pod: p0; Normal SuccessfulCreate Created pod: p1; Normal " +
				"SuccessfulCreate Created pod: p2"},
		"the first fails": {count: 7, fail: only("p0", errQuota), asked: 1, err: errQuota,
			events: `Warning FailedCreate Error creating: pods "p1" is forbidden: exceeded quota`},
		"one of the second batch fails": {count: 7, fail: only("p1", errQuota), made: 2, asked: 3, err: errQuota,
			events: `Normal SuccessfulCreate Created pod: p0; Normal SuccessfulCreate Created pod: p2; ` +
				`Warning FailedCreate Error creating: pods "p1" is forbidden: exceeded quota`},
		"the namespace is going": {count: 3, fail: func(string) error { return terminating }, asked: 1},
	} {
		control, client := control("create", c.fail)
		err := control.Create(t.Context(), "ns/web", owner, c.count, named)
		if asked := len(client.Actions()); asked != max(c.asked, c.made) {
			t.Errorf("%s: %d requests, want %d", name, asked, max(c.asked, c.made))
		}
		stored, listErr := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		if !errors.Is(err, c.err) || listErr != nil || len(stored.Items) != c.made {
			t.Errorf("%s: %v, %d pods; want %v, %d", name, err, len(stored.Items), c.err, c.made)
		}
		if got := events(control); got != c.events {
			t.Errorf("%s: events %s, want %s", name, got, c.events)
		}
		for range c.made {
			if control.Pending.Satisfied("ns/web") {
				t.Errorf("%s: satisfied before all are seen", name)
			}
			control.Pending.CreationObserved("ns/web")
		}
		if !control.Pending.Satisfied("ns/web") {
			t.Errorf("%s: waits for pods that were never made", name)
		}
	}
}

func TestControlDelete(t *testing.T) {
	for name, c := range map[string]struct {
		doomed []int
		fail   func(string) error
		gone   []int // whose deletion has yet to be seen
		err    error
		events string
	}{
		"none": {fail: none},
		"two of three": {doomed: []int{0, 2}, fail: none, gone: []int{0, 2},
			events: "Normal SuccessfulDelete Deleted pod: p0; Normal SuccessfulDelete Deleted pod: p2"},
		"one is gone already": {doomed: []int{0, 1}, fail: only("p1", apierrors.NewNotFound(resource, "p1")), gone: []int{0},
			events: "Normal SuccessfulDelete Deleted pod: p0"},
		"one fails": {doomed: []int{0, 1}, fail: only("p1", errQuota), gone: []int{0}, err: errQuota,
			events: `Normal SuccessfulDelete Deleted pod: p0; ` +
				`Warning FailedDelete Error deleting: pods "p1" is forbidden: exceeded quota`},
	} {
		control, client := control("delete", c.fail, named(0), named(1), named(2))
		var doomed []*v1.Pod
		for _, i := range c.doomed {
			doomed = append(doomed, named(i))
		}
		if err := control.Delete(t.Context(), "k", owner, doomed); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if got := events(control); got != c.events {
			t.Errorf("%s: events %s, want %s", name, got, c.events)
		}
		for _, action := range client.Actions() {
			d, ok := action.(clienttesting.DeleteActionImpl)
			if !ok || d.DeleteOptions.Preconditions == nil || d.DeleteOptions.Preconditions.UID == nil ||
				string(*d.DeleteOptions.Preconditions.UID) != strings.Replace(d.Name, "p", "u", 1) {
				t.Errorf("%s: deletes without the pod's UID: %+v", name, action)
			}
		}
		for _, i := range c.gone {
			if control.Pending.Satisfied("k") {
				t.Errorf("%s: satisfied before all are seen", name)
			}
			control.Pending.DeletionObserved("k", named(i).UID)
		}
		if !control.Pending.Satisfied("k") {
			t.Errorf("%s: waits for deletions that were never asked for", name)
		}
	}
}

func TestIndex(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	first, err := NewIndex(factory)
	if err != nil {
		t.Fatal(err)
	}
	index, err := NewIndex(factory)
	if err != nil {
		t.Fatalf("a second user of the index: %v", err)
	}
	pod := func(namespace, name, node, controller, other string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.PodSpec{NodeName: node}}
		if controller != "" {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: types.UID(controller),
				Controller: ptr.To(true)})
		}
		if other != "" {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{UID: types.UID(other)})
		}
		return p
	}
	for _, p := range []*v1.Pod{pod("a", "1", "n", "x", ""), pod("a", "2", "", "x", "y"), pod("a", "3", "n", "", "y"),
		pod("b", "4", "m", "", ""), pod("b", "5", "n", "z", "")} {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	show := func(found []*v1.Pod) string {
		var names []string
		for _, p := range found {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for what, c := range map[string]struct{ got, want string }{
		"of x":              {show(index.ControlledBy("x")), "1 2"},
		"of z":              {show(first.ControlledBy("z")), "5"},
		"an owner only":     {show(index.ControlledBy("y")), ""},
		"orphans of a":      {show(index.Orphans("a")), "3"},
		"orphans of b":      {show(index.Orphans("b")), "4"},
		"orphans of none":   {show(index.Orphans("")), ""},
		"on n":              {show(index.OnNode("n")), "1 3 5"},
		"on m":              {show(index.OnNode("m")), "4"},
		"without a node":    {show(index.OnNode("")), ""},
		"an orphan's index": {show(index.ControlledBy("")), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
}

func TestFromTemplate(t *testing.T) {
	template := &v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Name: "ignored", Namespace: "ignored", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"}, Finalizers: []string{"x.dev/f"}},
		Spec: v1.PodSpec{NodeSelector: map[string]string{"e": "f"}},
	}
	ref := *metav1.NewControllerRef(owner, apps.SchemeGroupVersion.WithKind("ReplicaSet"))
	pod := FromTemplate(template, owner, ref)
	if pod.Name != "" || pod.GenerateName != "web-" || pod.Namespace != "ns" || pod.Labels["a"] != "b" ||
		pod.Annotations["c"] != "d" || !slices.Equal(pod.Finalizers, []string{"x.dev/f"}) ||
		pod.Spec.NodeSelector["e"] != "f" ||
		len(pod.OwnerReferences) != 1 || !metav1.IsControlledBy(pod, owner) {
		t.Errorf("%+v", pod)
	}
	pod.Labels["a"], pod.Annotations["c"], pod.Finalizers[0], pod.Spec.NodeSelector["e"] = "", "", "", ""
	if template.Labels["a"] != "b" || template.Annotations["c"] != "d" || template.Finalizers[0] == "" ||
		template.Spec.NodeSelector["e"] != "f" {
		t.Error("the pod shares maps with its template")
	}
	for name, want := range map[string]string{
		"web": "web-", "a.b": "a.b-", strings.Repeat("x", 252): strings.Repeat("x", 252) + "-",
		"UPPER": "UPPER", strings.Repeat("x", 253): strings.Repeat("x", 253) + "-",
	} {
		o := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if got := FromTemplate(template, o, ref).GenerateName; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestPatcher(t *testing.T) {
	client := fake.NewClientset(named(1))
	patch := Control{Client: client}.Patcher("key", "uid")
	if err := patch(t.Context(), named(1), []byte(`{"metadata":{"labels":{"a":"b"}}}`)); err != nil {
		t.Fatal(err)
	}
	patched, err := client.CoreV1().Pods("ns").Get(t.Context(), "p1", metav1.GetOptions{})
	if err != nil || patched.Labels["a"] != "b" {
		t.Errorf("%+v: %v", patched, err)
	}
	if err := patch(t.Context(), named(2), []byte(`{}`)); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is gone: %v", err)
	}
}
