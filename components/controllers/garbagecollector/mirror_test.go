package garbagecollector

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"
)

func partial(name string, uid types.UID, owners ...types.UID) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "x.io/v1", Kind: "Definition"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
	}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: owner})
	}
	return o
}

func (g *graph) uids() (all []types.UID) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for uid := range g.objects {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}

// A list takes the place of what the graph has of its resource, and nothing else; an object that was made again under
// its name is another one.
func TestMirrorReplaces(t *testing.T) {
	var tasks []task
	resource := schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "definitions"}
	other := resource.GroupVersion().WithResource("others")
	m := &monitors{graph: newGraph(), defined: func() { t.Error("no resource is defined") },
		notify: func(more []task) { tasks = append(tasks, more...) }}
	put, remove := m.sink(resource, resource.GroupVersion().WithKind("Definition"))
	mirror := &mirror{resource: resource, graph: m.graph, put: put, remove: remove, replaced: make(chan struct{})}
	m.graph.put(&object{resource: other, uid: "other", owners: []metav1.OwnerReference{{UID: "a"}}})
	is := func(want ...types.UID) {
		t.Helper()
		if got := m.graph.uids(); !slices.Equal(got, want) {
			t.Errorf("the graph has %v, want %v", got, want)
		}
	}
	_ = mirror.Add(partial("early", "early"))
	if mirror.synced() {
		t.Error("synced before all objects were listed")
	}
	_ = mirror.Replace([]any{partial("a", "a"), partial("b", "b", "a")}, "1")
	if !mirror.synced() || !slices.Equal(tasks, []task{{uid: "b"}}) {
		t.Errorf("synced: %t, tasks: %v", mirror.synced(), tasks)
	}
	is("a", "b", "other")
	_ = mirror.Update(partial("b", "b"))
	_ = mirror.Delete(partial("b", "b"))
	is("a", "other")
	tasks = nil
	_ = mirror.Replace([]any{partial("a", "new")}, "2")
	is("new", "other")
	if !slices.Equal(tasks, []task{{uid: "other"}}) {
		t.Errorf("tasks after the owner's end: %v", tasks)
	}
	if err := mirror.Resync(); err != nil {
		t.Error(err)
	}
}

// A monitor follows what is created and deleted, and ends with the monitors.
func TestMonitor(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	defined := make(chan struct{}, 100)
	m := &monitors{client: client, graph: newGraph(), clock: clock.RealClock{}, notify: func([]task) {},
		defined: func() { defined <- struct{}{} }, running: map[schema.GroupVersionResource]*monitor{}}
	kind := resource.GroupVersion().WithKind("CustomResourceDefinition")
	objects := client.Resource(resource).Namespace("ns").(metadatafake.MetadataClient)
	created := partial("a", "a")
	created.SetGroupVersionKind(kind)
	if _, err := objects.CreateFake(created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.follow(t.Context(), map[schema.GroupVersionResource]schema.GroupVersionKind{resource: kind}); err != nil {
		t.Fatal(err)
	}
	<-defined
	for !m.ready() {
		time.Sleep(time.Millisecond)
	}
	if err := objects.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-defined
	if uids := m.graph.uids(); len(uids) > 0 {
		t.Errorf("the graph has %v", uids)
	}
	m.stop()
}
