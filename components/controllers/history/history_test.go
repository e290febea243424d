package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

// The name is what upstream's controller gives a revision of the same content: whichever manager made it, it is found
// again.
func TestHashCountsCollisionsFromZero(t *testing.T) {
	content := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"db":"r"}},"spec":{"containers":[` +
		`{"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":` +
		`"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always",` +
		`"schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`
	if hash := Hash([]byte(content), 0); hash != "6bd6cbf7bf" {
		t.Error(hash)
	}
	if Hash([]byte(content), 1) == Hash([]byte(content), 0) {
		t.Error("a collision changes nothing")
	}
}

func template(image string) *v1.PodTemplateSpec {
	return &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}, NodeSelector: map[string]string{"b": "c"}}}
}

func TestDataIsAPatchThatPutsTheTemplateBack(t *testing.T) {
	data, err := Data(template("i:1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},` +
		`"spec":{"containers":[{"image":"i:1",` +
		`"name":"c","resources":{}}],"nodeSelector":{"b":"c"}}}}}`
	if string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
	back, err := Template(&apps.ControllerRevision{Data: runtime.RawExtension{Raw: data}})
	if err != nil || !equality.Semantic.DeepEqual(back, template("i:1")) {
		t.Errorf("%+v: %v", back, err)
	}
	broken := &apps.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Data: runtime.RawExtension{Raw: []byte("{")}}
	if _, err := Template(broken); err == nil || !strings.HasPrefix(err.Error(), "controller revision r: ") {
		t.Errorf("broken data: %v", err)
	}
}

// rev makes a revision from "name number content age-in-seconds".
func rev(text string) *apps.ControllerRevision {
	var name, content string
	var number int64
	var age int
	_, _ = fmt.Sscan(text, &name, &number, &content, &age)
	return &apps.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" +
		name),
		CreationTimestamp: metav1.NewTime(time.Unix(10000-int64(age), 0))}, Revision: number,
		Data: runtime.RawExtension{Raw: object(content)}}
}

// object is the smallest JSON that names content.
func object(content string) []byte { return fmt.Appendf(nil, `{%q:1}`, content) }

func revs(texts ...string) []*apps.ControllerRevision {
	var all []*apps.ControllerRevision
	for _, text := range texts {
		all = append(all, rev(text))
	}
	return all
}

func names(revisions []*apps.ControllerRevision) string {
	var all []string
	for _, r := range revisions {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

func TestSortAndNext(t *testing.T) {
	for name, c := range map[string]struct {
		revisions []*apps.ControllerRevision
		want      string
		next      int64
	}{
		"none":                   {nil, "", 1},
		"by number":              {revs("c 3 x 9", "a 1 x 1", "b 2 x 5"), "a b c", 4},
		"gaps":                   {revs("b 7 x 0", "a 2 x 0"), "a b", 8},
		"same number: by age":    {revs("a 1 x 0", "b 1 x 10"), "b a", 2},
		"same number, same time": {revs("b 1 x 0", "a 1 x 0", "c 1 x 0"), "a b c", 2},
	} {
		Sort(c.revisions)
		if got, next := names(c.revisions), Next(c.revisions); got != c.want || next != c.next {
			t.Errorf("%s: %q, next %d; want %q, %d", name, got, next, c.want, c.next)
		}
	}
}

func TestFind(t *testing.T) {
	all := revs("a 1 x 0", "b 2 y 0", "c 3 x 0")
	for content, want := range map[string]string{"x": "c", "y": "b", "z": ""} {
		got := ""
		if r := Find(all, object(content)); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", content, got, want)
		}
	}
}

func TestExcess(t *testing.T) {
	all := revs("a 1 x 0", "b 2 x 0", "c 3 x 0", "d 4 x 0")
	for _, c := range []struct {
		used  string
		limit int
		want  string
	}{
		{"", 10, ""}, {"", 4, ""}, {"", 3, "a"}, {"", 0, "a b c d"}, {"d", 3, ""}, {"d", 2, "a"}, {"a d", 1, "b"},
		{"a d", 0, "b c"}, {"a b c d", 0, ""},
	} {
		used := map[string]bool{}
		for name := range strings.FieldsSeq(c.used) {
			used[name] = true
		}
		if got := names(Excess(all, used, c.limit)); got != c.want {
			t.Errorf("%q in use, limit %d: %q, want %q", c.used, c.limit, got, c.want)
		}
	}
	if names(all) != "a b c d" {
		t.Error("the list was changed")
	}
}

var (
	kind  = apps.SchemeGroupVersion.WithKind("StatefulSet")
	owner = &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "o",
		Annotations: map[string]string{"kubernetes.io/change-cause": "why"}}}
)

func TestNew(t *testing.T) {
	given := map[string]string{"app": "a"}
	got := New(owner, kind, given, HashLabel, "h", []byte("data"), 5)
	if got.Name != "db-h" || got.Namespace != "ns" || got.Revision != 5 || string(got.Data.Raw) != "data" ||
		!maps.Equal(got.Labels, map[string]string{"app": "a", HashLabel: "h"}) ||
		!maps.Equal(got.Annotations, owner.Annotations) || !metav1.IsControlledBy(got, owner) ||
		!ptr.Deref(got.OwnerReferences[0].BlockOwnerDeletion, false) || got.OwnerReferences[0].Kind != "StatefulSet" {
		t.Errorf("%+v", got)
	}
	if bare := New(owner, kind, nil, HashLabel, "h", nil, 1); !maps.Equal(bare.Labels, map[string]string{HashLabel: "h"}) {
		t.Errorf("without labels: %v", bare.Labels)
	}
	got.Annotations["more"] = "x"
	if len(given) != 1 || len(owner.Annotations) != 1 {
		t.Error("the owner's maps were changed")
	}
}

func store(t *testing.T, objects ...*apps.ControllerRevision) (Store, *fake.Clientset) {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var all []runtime.Object
	for _, o := range objects {
		all = append(all, o)
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	client := runnertest.NewClient(all...)
	return Store{Client: client, Lister: appslisters.NewControllerRevisionLister(indexer)}, client
}

func with(r *apps.ControllerRevision, app string, refs ...metav1.OwnerReference) *apps.ControllerRevision {
	r.Labels, r.OwnerReferences = map[string]string{"app": app}, refs
	return r
}

func TestStoreAdoptsAndReleases(t *testing.T) {
	mine, other := *metav1.NewControllerRef(owner, kind), metav1.OwnerReference{UID: "other", Controller: ptr.To(true)}
	elsewhere := with(rev("elsewhere 9 x 0"), "a")
	elsewhere.Namespace = "else"
	s, client := store(t, with(rev("kept 2 x 0"), "a", mine), with(rev("adopted 1 x 0"), "a"),
		with(rev("released 3 x 0"), "b", mine), with(rev("others 4 x 0"), "a", other), with(rev("stranger 5 x 0"), "b"),
		elsewhere)
	fresh := func(context.Context) (metav1.Object, error) { return owner, nil }
	got, err := s.Of(t.Context(), owner, kind, labels.SelectorFromSet(labels.Set{"app": "a"}), fresh)
	if err != nil || names(got) != "adopted kept" {
		t.Errorf("%q: %v", names(got), err)
	}
	var owned []string
	stored, err := client.AppsV1().ControllerRevisions("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored.Items {
		if metav1.IsControlledBy(&stored.Items[i], owner) {
			owned = append(owned, stored.Items[i].Name)
		}
	}
	slices.Sort(owned)
	if fmt.Sprint(owned) != "[adopted kept]" {
		t.Errorf("owned afterwards: %v", owned)
	}
}

func TestStoreCreate(t *testing.T) {
	s, client := store(t, rev("same 1 x 0"), rev("taken 2 y 0"))
	for _, c := range []struct {
		revision string
		number   int64 // of the result
		err      error
	}{{"fresh 3 z 0", 3, nil}, {"same 9 x 0", 1, nil}, {"taken 9 x 0", 0, ErrCollision}} {
		got, err := s.Create(t.Context(), rev(c.revision))
		if !errors.Is(err, c.err) || (err == nil && got.Revision != c.number) {
			t.Errorf("%s: %+v, %v", c.revision, got, err)
		}
	}
	if r, err := client.AppsV1().ControllerRevisions("ns").Get(t.Context(), "taken", metav1.GetOptions{}); err != nil ||
		string(r.Data.Raw) != `{"y":1}` {
		t.Errorf("the other content: %+v, %v", r, err)
	}
}

func TestStoreRenewAndDelete(t *testing.T) {
	old, idle := rev("old 1 x 0"), rev("idle 2 y 0")
	s, client := store(t, old, idle)
	if got, err := s.Renew(t.Context(), old, 1); err != nil || got != old || len(client.Actions()) != 0 {
		t.Errorf("the newest already: %v, %v, %v", got, err, client.Actions())
	}
	if got, err := s.Renew(t.Context(), old, 3); err != nil || got.Revision != 3 || old.Revision != 1 {
		t.Errorf("renewed: %+v, shared %d, %v", got, old.Revision, err)
	}
	if err := s.Delete(t.Context(), []*apps.ControllerRevision{rev("gone 1 x 0"), idle}); err != nil {
		t.Error(err)
	}
	left, err := client.AppsV1().ControllerRevisions("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "old" || left.Items[0].Revision != 3 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
