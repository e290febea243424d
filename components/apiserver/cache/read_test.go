package cache

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

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
	f.wantNames(f.list(ListOptions{Predicate: Predicate{Field: fields.ParseSelectorOrDie("spec.nodeName=n2")}}),
		"a/y1 b/x2")
}

// TestPagesOfOneNamespace: what lies in others is no further page, wherever the list comes from.
func TestPagesOfOneNamespace(t *testing.T) {
	f := startMemory(t)
	f.create("a", "x", "")
	last := f.create("b", "y", "")
	f.create("c", "z", "")
	o := ListOptions{Limit: 1, ResourceVersion: fmt.Sprint(last.Revision),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            Predicate{Field: fields.ParseSelectorOrDie("metadata.namespace=a")}}
	for _, from := range []string{"memory", "the store"} {
		l := f.list(o)
		f.wantNames(l, "a/x")
		if l.Continue != "" {
			t.Errorf("from %s: more is told of", from)
		}
		f.forgetPast()
	}
	f.create("a", "x2", "")
	if o.ResourceVersion, o.ResourceVersionMatch = "", ""; f.list(o).Continue == "" {
		t.Error("no more is told of")
	}
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
	_, err = f.pods.List(f.ctx,
		ListOptions{ResourceVersion: formatRevision(first.Revision),
			ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("exact: %v", err)
	}
}

// TestContinueExpiresUnchanged: a list ends with the store's history, also when nothing has changed since its first
// page.
func TestContinueExpiresUnchanged(t *testing.T) {
	f := startMemory(t)
	for i := range 3 {
		f.create("a", fmt.Sprintf("p%d", i), "")
	}
	first := f.list(ListOptions{Limit: 1})
	f.set.Forgotten(first.Revision)
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: first.Continue}), "a/p1")
	f.set.Forgotten(first.Revision + 1)
	_, err := f.pods.List(f.ctx, ListOptions{Limit: 1, Continue: first.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("got %v", err)
	}
	f.wantNames(f.list(ListOptions{Limit: 1, Continue: err.(apierrors.APIStatus).Status().ListMeta.Continue}), "a/p1")
}

// TestResourceVersions goes through the table of the API concepts page.
func TestResourceVersions(t *testing.T) {
	f := startMemory(t)
	f.set.timeout = 20 * time.Millisecond
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
