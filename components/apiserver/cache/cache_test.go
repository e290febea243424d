package cache

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// podKind is a row with an index, as that of pods.
func podKind() *kinds.Kind {
	return &kinds.Kind{
		Name: "Pod", Resource: "pods", Prefix: "pods", Namespaced: true, Hub: corev1.SchemeGroupVersion,
		Versions: []kinds.Version{{GroupVersion: corev1.SchemeGroupVersion, New: func() kinds.Object { return &corev1.Pod{} }}},
		Fields: map[string]func(kinds.Object) string{
			"spec.nodeName": func(o kinds.Object) string { return o.(*corev1.Pod).Spec.NodeName },
			"status.phase":  func(o kinds.Object) string { return string(o.(*corev1.Pod).Status.Phase) },
		},
		Indexed: []string{"spec.nodeName"},
	}
}

type fixture struct {
	testing.TB
	ctx   context.Context
	store storage.Store
	set   *Set
	pods  *Cache
}

func start(t testing.TB, store storage.Store, config Config) *fixture {
	t.Helper()
	config.Store = store
	set, err := NewSet(config)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, store: store, set: set, pods: set.Add(podKind())}
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx = ctx
	var running sync.WaitGroup
	running.Go(func() {
		if err := set.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		store.Close()
	})
	ready, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	if err := set.WaitReady(ready); err != nil {
		t.Fatal(err)
	}
	return f
}

func startMemory(t testing.TB) *fixture { return start(t, memory.New(nil), Config{}) }

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name[:1]}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func (f *fixture) create(namespace, name, node string) *Entry {
	f.Helper()
	e, err := f.pods.Create(f.ctx, f.pods.Key(namespace, name), pod(namespace, name, node), 0)
	f.must(err)
	return e
}

// alter makes an update that changes a copy of the pod.
func (f *fixture) alter(namespace, name string, change func(*corev1.Pod)) *Entry {
	f.Helper()
	e, err := f.pods.Update(f.ctx, f.pods.Key(namespace, name), nil, changing(change))
	f.must(err)
	return e
}

func changing(change func(*corev1.Pod)) Mutate {
	return func(current *Entry) (kinds.Object, error) {
		p := current.Object.(*corev1.Pod).DeepCopy()
		change(p)
		return p, nil
	}
}

func (f *fixture) remove(namespace, name string) *Entry {
	f.Helper()
	e, err := f.pods.Delete(f.ctx, f.pods.Key(namespace, name), nil)
	f.must(err)
	return e
}

func (f *fixture) list(o ListOptions) *List {
	f.Helper()
	l, err := f.pods.List(f.ctx, o)
	f.must(err)
	return l
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func names(l *List) string {
	var out []string
	for _, e := range l.Entries {
		out = append(out, e.Object.GetNamespace()+"/"+e.Object.GetName())
	}
	return strings.Join(out, " ")
}

func (f *fixture) wantNames(l *List, want string) {
	f.Helper()
	if got := names(l); got != want {
		f.Fatalf("listed %q, want %q", got, want)
	}
}

// forgetPast leaves the cache with nothing but the present.
func (f *fixture) forgetPast() {
	f.list(ListOptions{})
	f.pods.mu.Lock()
	defer f.pods.mu.Unlock()
	f.pods.kept = nil
}

func TestWritesAreReadAtOnce(t *testing.T) {
	f := startMemory(t)
	for i := range 200 {
		name := fmt.Sprintf("p%d", i)
		created := f.create("a", name, "")
		got, err := f.pods.Get(f.ctx, created.Key, "")
		f.must(err)
		if got != created {
			t.Fatal("the watch has made another entry of what was written here")
		}
		if rv := got.Object.GetResourceVersion(); rv != formatRevision(created.Revision) {
			t.Fatalf("resourceVersion is %s at revision %d", rv, created.Revision)
		}
		f.alter("a", name, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
		if got, _ := f.pods.Get(f.ctx, created.Key, ""); got.Object.(*corev1.Pod).Spec.NodeName != "n" {
			t.Fatal("an update is not seen")
		}
		f.remove("a", name)
		if _, err := f.pods.Get(f.ctx, created.Key, ""); !apierrors.IsNotFound(err) {
			t.Fatalf("after a delete: %v", err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	_, err := f.pods.Create(f.ctx, f.pods.Key("a", "x"), pod("a", "x", ""), 0)
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	_, err = f.pods.Update(f.ctx, f.pods.Key("a", "y"), nil, changing(func(*corev1.Pod) {}))
	if !apierrors.IsNotFound(err) {
		t.Errorf("update of nothing: %v", err)
	}
	refusal := apierrors.NewConflict(f.pods.resource, "x", fmt.Errorf("no"))
	_, err = f.pods.Delete(f.ctx, f.pods.Key("a", "x"), func(*Entry) error { return refusal })
	if err != refusal {
		t.Errorf("refused delete: %v", err)
	}
	_, err = f.pods.Delete(f.ctx, f.pods.Key("a", "y"), nil)
	if !apierrors.IsNotFound(err) {
		t.Errorf("delete of nothing: %v", err)
	}
}

func TestUpdateToTheSameWritesNothing(t *testing.T) {
	f := startMemory(t)
	created := f.create("a", "x", "")
	again := f.alter("a", "x", func(*corev1.Pod) {})
	if again.Revision != created.Revision {
		t.Fatalf("written at %d", again.Revision)
	}
}

// TestUpdateAfterOthers has another server change the object behind the cache's back.
func TestUpdateAfterOthers(t *testing.T) {
	store := memory.New(nil)
	f := start(t, store, Config{})
	created := f.create("a", "x", "")
	other := pod("a", "x", "there")
	value, err := f.pods.stored.Encode(other)
	f.must(err)
	_, err = store.Update(f.ctx, created.Key, value, created.Revision, 0)
	f.must(err)
	e, err := f.pods.Update(f.ctx, created.Key, nil, changing(func(p *corev1.Pod) { p.Labels["new"] = "1" }))
	f.must(err)
	if p := e.Object.(*corev1.Pod); p.Spec.NodeName != "there" || p.Labels["new"] != "1" {
		t.Fatalf("an update was lost: %v", p)
	}
}

func TestRacingUpdates(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	var wg sync.WaitGroup
	const writers, each = 8, 50
	for range writers {
		wg.Go(func() {
			for range each {
				_, err := f.pods.Update(f.ctx, f.pods.Key("a", "x"), nil, changing(func(p *corev1.Pod) { p.Generation++ }))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	e, err := f.pods.Get(f.ctx, f.pods.Key("a", "x"), "")
	f.must(err)
	if g := e.Object.GetGeneration(); g != writers*each {
		t.Fatalf("%d updates are left of %d", g, writers*each)
	}
}

func TestSelectors(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x1", "n1")
	f.create("a", "y1", "n2")
	f.create("b", "x2", "n1")
	f.create("b", "y2", "")
	for _, c := range []struct{ namespace, label, field, want string }{
		{"", "", "", "a/x1 a/y1 b/x2 b/y2"},
		{"a", "", "", "a/x1 a/y1"},
		{"", "app=x", "", "a/x1 b/x2"},
		{"", "", "spec.nodeName=n1", "a/x1 b/x2"},
		{"b", "", "spec.nodeName=n1", "b/x2"},
		{"", "", "spec.nodeName=", "b/y2"},
		{"", "", "spec.nodeName!=n1", "a/y1 b/y2"},
		{"", "app=y", "spec.nodeName=n1", ""},
		{"a", "", "metadata.name=x1", "a/x1"},
		{"", "", "metadata.name=x1", "a/x1"},
		{"", "", "metadata.name=x2,metadata.namespace=b", "b/x2"},
		{"", "", "metadata.name=x2,metadata.namespace=a", ""},
		{"c", "", "", ""},
	} {
		p := Predicate{}
		if c.label != "" {
			p.Label, _ = labels.Parse(c.label)
		}
		if c.field != "" {
			p.Field = fields.ParseSelectorOrDie(c.field)
		}
		if got := names(f.list(ListOptions{Namespace: c.namespace, Predicate: p})); got != c.want {
			t.Errorf("namespace %q, labels %q, fields %q: got %q, want %q", c.namespace, c.label, c.field, got, c.want)
		}
	}
	f.alter("b", "x2", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	f.wantNames(f.list(ListOptions{Predicate: Predicate{Field: fields.ParseSelectorOrDie("spec.nodeName=n2")}}), "a/y1 b/x2")
}

func TestPaging(t *testing.T) {
	f := startMemory(t)
	for i := range 5 {
		f.create("a", fmt.Sprintf("p%d", i), "")
	}
	first := f.list(ListOptions{Namespace: "a", Limit: 2})
	f.wantNames(first, "a/p0 a/p1")
	if first.Remaining == nil || *first.Remaining != 3 {
		t.Fatalf("remaining %v", first.Remaining)
	}
	f.remove("a", "p2")
	f.create("a", "p25", "")
	second := f.list(ListOptions{Namespace: "a", Limit: 2, Continue: first.Continue})
	f.wantNames(second, "a/p2 a/p3")
	if second.Revision != first.Revision || *second.Remaining != 1 {
		t.Fatalf("second page at %d after %d, remaining %d", second.Revision, first.Revision, *second.Remaining)
	}
	f.forgetPast() // from the store, then
	last := f.list(ListOptions{Namespace: "a", Limit: 2, Continue: second.Continue})
	f.wantNames(last, "a/p4")
	if last.Continue != "" || last.Remaining != nil {
		t.Fatalf("after the last page: %+v", last)
	}
	again := f.list(ListOptions{Namespace: "a", Limit: 2, Continue: first.Continue})
	f.wantNames(again, "a/p2 a/p3")
	if again.Continue != second.Continue || *again.Remaining != 1 {
		t.Fatalf("the page from the store differs: %+v", again)
	}
}

func TestContinueExpires(t *testing.T) {
	f := startMemory(t)
	for i := range 3 {
		f.create("a", fmt.Sprintf("p%d", i), "")
	}
	first := f.list(ListOptions{Limit: 1})
	f.remove("a", "p1")
	f.forgetPast()
	now, _ := f.store.Revision(f.ctx)
	f.must(f.store.Compact(f.ctx, now))
	_, err := f.pods.List(f.ctx, ListOptions{Limit: 1, Continue: first.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("got %v", err)
	}
	onward := err.(apierrors.APIStatus).Status().ListMeta.Continue
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: onward}), "a/p2")
	_, err = f.pods.List(f.ctx, ListOptions{ResourceVersion: formatRevision(first.Revision), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("exact: %v", err)
	}
}

// TestResourceVersions goes through the table of the API concepts page.
func TestResourceVersions(t *testing.T) {
	f := startMemory(t)
	f.set.patience = 20 * time.Millisecond
	first := f.create("a", "x", "")
	second := f.create("a", "y", "")
	old, now := formatRevision(first.Revision), formatRevision(second.Revision)
	future := formatRevision(second.Revision + 1000)
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	for _, c := range []struct {
		rv    string
		match metav1.ResourceVersionMatch
		limit int64
		want  string
		check func(error) bool
	}{
		{rv: "", want: "a/x a/y"},
		{rv: "0", want: "a/x a/y"},
		{rv: "0", match: notOlder, want: "a/x a/y"},
		{rv: old, want: "a/x a/y"},
		{rv: old, match: notOlder, want: "a/x a/y"},
		{rv: old, match: exact, want: "a/x"},
		{rv: old, limit: 10, want: "a/x"},
		{rv: old, limit: 10, match: notOlder, want: "a/x a/y"},
		{rv: now, match: exact, want: "a/x a/y"},
		{rv: "0", limit: 1, want: "a/x a/y"},
		{rv: "x", check: apierrors.IsBadRequest},
		{rv: "-1", check: apierrors.IsBadRequest},
		{rv: future, check: tooLarge},
		{rv: future, match: exact, check: tooLarge},
	} {
		l, err := f.pods.List(f.ctx, ListOptions{ResourceVersion: c.rv, ResourceVersionMatch: c.match, Limit: c.limit})
		switch {
		case c.check != nil && !c.check(err):
			t.Errorf("%+v: got error %v", c, err)
		case c.check == nil && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.check == nil && names(l) != c.want:
			t.Errorf("%+v: got %q", c, names(l))
		}
	}
	if _, err := f.pods.Get(f.ctx, first.Key, future); !tooLarge(err) {
		t.Errorf("get of the future: %v", err)
	}
}

func tooLarge(err error) bool {
	return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

func TestEncodedOncePerFormat(t *testing.T) {
	f := startMemory(t)
	e := f.create("a", "x", "n1")
	for _, c := range []struct {
		media serial.MediaType
		shape Shape
		want  string
	}{
		{serial.JSON, Whole, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"`},
		{serial.JSON, Metadata, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"`},
		{serial.Protobuf, Whole, ""},
		{serial.Protobuf, Metadata, ""},
	} {
		format := f.pods.Format(corev1.SchemeGroupVersion, c.media, c.shape)
		one, err := e.Encoded(format)
		f.must(err)
		two, _ := e.Encoded(format)
		if !strings.HasPrefix(string(one), c.want) || &one[0] != &two[0] {
			t.Errorf("%v: got %q", c, one)
		}
	}
}

func TestBudgetIsKept(t *testing.T) {
	f := start(t, memory.New(nil), Config{Encodings: 2000})
	format := f.pods.Format(corev1.SchemeGroupVersion, serial.JSON, Whole)
	for i := range 50 {
		_, err := f.create("a", fmt.Sprintf("p%02d", i), "").Encoded(format)
		f.must(err)
	}
	kept := 0
	for _, e := range f.list(ListOptions{}).Entries {
		kept += len(e.kept(format))
	}
	if kept == 0 || kept > 2000 {
		t.Fatalf("%d bytes are kept", kept)
	}
}

// TestZippedLists changes objects between lists: none may come from an old run.
func TestZippedLists(t *testing.T) {
	f := startMemory(t)
	for i := range 500 {
		f.create("a", fmt.Sprintf("p%03d", i), "")
	}
	for _, media := range []serial.MediaType{serial.JSON, serial.Protobuf} {
		format := f.pods.Format(corev1.SchemeGroupVersion, media, Whole)
		for i := range 5 {
			f.alter("a", fmt.Sprintf("p%03d", 100*i), func(p *corev1.Pod) { p.Generation++ })
			l := f.list(ListOptions{})
			out := serial.List{Kind: corev1.SchemeGroupVersion.WithKind("PodList"), Item: format.Kind, Meta: l.Meta(), Items: l.Bodies(format)}
			var want, zipped bytes.Buffer
			f.must(serial.WriteList(&want, media, out))
			f.must(l.WriteZipped(&zipped, format, out))
			r, err := gzip.NewReader(&zipped)
			f.must(err)
			got, err := io.ReadAll(r)
			f.must(err)
			if !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%s: the zipped list differs", media)
			}
		}
	}
	if l := f.list(ListOptions{Predicate: Predicate{Label: labels.SelectorFromSet(labels.Set{"app": "p"})}}); l.CanZip() {
		t.Error("a chosen list is zipped")
	}
}
