package namespace

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

type discovered struct {
	lists []*metav1.APIResourceList
	err   error
}

func (r discovered) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return r.lists, r.err
}

func served() []*metav1.APIResourceList {
	all := []string{"list", "delete", "deletecollection"}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: all},
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: all},
			{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: []string{"create"}},
		}},
		{GroupVersion: "x.io/v1",
			APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true,
				Verbs: []string{"list", "delete"}}}},
	}
}

func object(apiVersion, kind, name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: finalizers}}
}

func client(objects ...runtime.Object) *fake.FakeMetadataClient {
	scheme := fake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	return fake.NewSimpleMetadataClient(scheme, objects...)
}

func verbs(c *fake.FakeMetadataClient) string {
	var all []string
	for _, action := range c.Actions() {
		all = append(all, action.GetVerb()+" "+action.GetResource().Resource)
	}
	return strings.Join(all, ", ")
}

func TestPodsGoFirst(t *testing.T) {
	c := client(object("v1", "Pod", "p", "x.io/wait"), object("v1", "ConfigMap", "c"))
	c.PrependReactor("delete-collection", "*",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	subject := content{discovery: discovered{lists: served()}, metadata: c}
	o, wait := subject.remove(t.Context(), "ns", func(string) time.Duration { return 30 * time.Second })
	if !o.left() || o.failed() || wait != 30*time.Second {
		t.Fatalf("%+v, wait %v", o, wait)
	}
	if got := verbs(c); strings.Contains(got, "configmaps") {
		t.Errorf("configuration was touched while pods live: %s", got)
	}
	for _, c := range conditions(nil, o, metav1.Time{}) { // what remains is counted once pods are gone
		if c.Status != v1.ConditionFalse {
			t.Errorf("%+v", c)
		}
	}
}

func TestOneByOneWithoutDeleteCollection(t *testing.T) {
	c := client(object("x.io/v1", "Thing", "t"))
	subject := content{discovery: discovered{lists: served()}, metadata: c}
	o, _ := subject.remove(t.Context(), "ns", nil)
	if o.left() || o.failed() || !strings.Contains(verbs(c), "delete things") {
		t.Errorf("%+v after %s", o, verbs(c))
	}
}

func TestPartialDiscovery(t *testing.T) {
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "broken.io",
		Version: "v1"}: errors.New("down")}}
	for want, failure := range map[string]error{
		"Discovery failed for some groups, 1 failing: " + partial.Error(): partial,
		"no answer": errors.New("no answer"),
	} {
		subject := content{discovery: discovered{lists: served(), err: failure}, metadata: client()}
		o, _ := subject.remove(t.Context(), "ns", nil)
		if !o.failed() {
			t.Fatal("what could not be discovered counts as gone")
		}
		c := conditions(nil, o, metav1.Time{})[0]
		if c.Type != v1.NamespaceDeletionDiscoveryFailure || c.Status != v1.ConditionTrue || c.Message != want {
			t.Errorf("%+v", c)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	o := &outcome{remaining: map[schema.GroupVersionResource]int{podsResource: 2}}
	first := conditions(nil, o, early)
	o.remaining[podsResource] = 1
	second := conditions(first, o, late)
	if !second[3].LastTransitionTime.Equal(&early) || second[3].Message == first[3].Message {
		t.Errorf("%+v", second[3])
	}
	third := conditions(second, &outcome{}, late)
	if !third[3].LastTransitionTime.Equal(&late) || third[3].Status != v1.ConditionFalse ||
		!third[0].LastTransitionTime.Equal(&early) {
		t.Errorf("%+v", third)
	}
}
