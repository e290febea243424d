package storageversionmigrator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	fakemetadata "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

var deployments = metav1.GroupResource{Group: "apps", Resource: "deployments"}

// made is a migration of deployments, of that age, with these conditions; a leading "!" makes one false.
func made(name string, second int, conditions ...string) *migration {
	m := &migration{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
	m.Spec.Resource = deployments
	for _, c := range conditions {
		status := metav1.ConditionTrue
		if c[0] == '!' {
			c, status = c[1:], metav1.ConditionFalse
		}
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: c, Status: status})
	}
	return m
}

func TestPlan(t *testing.T) {
	other := made("other", 0, "Running")
	other.Spec.Resource = metav1.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		name          string
		all           []*migration
		ended         []string
		running, next string
	}{
		{name: "nothing"},
		{name: "the oldest is next", all: []*migration{made("b", 2), made("c", 1), made("a", 1), other}, next: "a"},
		{name: "one runs", all: []*migration{made("a", 1), made("b", 2, "Running")}, running: "b"},
		{name: "one has ended", all: []*migration{made("a", 1, "Running", "Succeeded"), made("b", 2)},
			ended: []string{"a"}, next: "b"},
		{name: "one has failed", all: []*migration{made("a", 1, "Running", "Failed")}, ended: []string{"a"}},
		{name: "all is told", all: []*migration{made("a", 1, "!Running", "Succeeded")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plan(test.all, deployments)
			var ended []string
			for _, m := range p.ended {
				ended = append(ended, m.Name)
			}
			nameOf := func(m *migration) string {
				if m == nil {
					return ""
				}
				return m.Name
			}
			if !slices.Equal(ended, test.ended) || nameOf(p.running) != test.running || nameOf(p.next) != test.next {
				t.Errorf("ended %v, running %q, next %q", ended, nameOf(p.running), nameOf(p.next))
			}
		})
	}
}

func TestStatusIsSaidOnce(t *testing.T) {
	m := made("a", 1, "!Running")
	if again := with(m, migrationv1beta1.MigrationRunning, "R", "", metav1.Now()); len(again.Status.Conditions) != 1 ||
		is(again, migrationv1beta1.MigrationRunning) {
		t.Errorf("it runs again: %v", again.Status.Conditions)
	}
	if over := stopped(made("a", 1, "Running"), metav1.Now()); is(over, migrationv1beta1.MigrationRunning) ||
		over.Status.Conditions[0].Reason != reasonCompleted {
		t.Errorf("it still runs: %v", over.Status.Conditions)
	}
}

func TestStoredVersionsAreTrimmed(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2", Storage: true}}
	began := func(generation int64) *apiextensionsv1.CustomResourceDefinition {
		out := crd.DeepCopy()
		out.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.StorageMigrating,
			ObservedGeneration: generation}}
		return out
	}
	for _, test := range []struct {
		crd       *apiextensionsv1.CustomResourceDefinition
		succeeded bool
		stored    []string
	}{{began(3), true, []string{"v2"}}, {began(3), false, nil}, {began(2), true, nil}, {crd, true, nil}} {
		if c, stored := finished(test.crd, test.succeeded); !slices.Equal(stored, test.stored) ||
			c.Status != apiextensionsv1.ConditionFalse {
			t.Errorf("%v: stored %v, %v", test.crd.Status.Conditions, stored, c)
		}
	}
}

// TestMigrate: only what was last written before is written again, a conflict is none of ours, and other errors count.
func TestMigrate(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	object := func(name, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u", ResourceVersion: version},
		}
	}
	scheme := fakemetadata.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, test := range []struct {
		name           string
		answer         error
		written        []string
		fatal, passing bool
	}{
		{"well", nil, []string{"old", "same"}, false, false},
		{"conflicts", apierrors.NewConflict(resource, "x", fmt.Errorf("changed")), []string{"old", "same"},
			false, false},
		{"refused", apierrors.NewForbidden(resource, "x", fmt.Errorf("no")), []string{"old"}, true, false},
		{"too much", apierrors.NewTooManyRequests("later", 1), []string{"old"}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var written []string
			objects := fakedynamic.NewSimpleDynamicClient(runtime.NewScheme())
			objects.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				p := a.(clienttesting.PatchAction)
				want := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"resourceVersion":%q,"uid":"u"}}`,
					map[string]string{"old": "4", "same": "10"}[p.GetName()])
				if string(p.GetPatch()) != want {
					t.Errorf("applied %s, want %s", p.GetPatch(), want)
				}
				written = append(written, p.GetName())
				return true, &unstructured.Unstructured{}, test.answer
			})
			c := &Controller{sources: Sources{
				Metadata: fakemetadata.NewSimpleMetadataClient(scheme, object("old", "4"), object("same", "10"),
					object("young", "11")), Dynamic: objects,
			}}
			fatal, err := c.migrate(t.Context(),
				&found{metav1.APIResource{Name: "deployments", Kind: "Deployment", Namespaced: true}, gvr}, "10")
			if (fatal != nil) != test.fatal || (err != nil) != test.passing || !slices.Equal(written, test.written) {
				t.Errorf("wrote %v, %v, %v", written, fatal, err)
			}
		})
	}
}

func TestWhatIsSaidOfADefinitionNamesItsVersion(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "a.b", ResourceVersion: "7",
		Generation: 2}}
	u := said(crd, apiextensionsv1.CustomResourceDefinitionCondition{Status: apiextensionsv1.ConditionTrue}, nil,
		metav1.NewTime(time.Unix(0, 0)))
	if _, trims, _ := unstructured.NestedSlice(u.Object, "status", "storedVersions"); trims ||
		u.GetResourceVersion() != "7" {
		t.Errorf("%v", u.Object)
	}
}
