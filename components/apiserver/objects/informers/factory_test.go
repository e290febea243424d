package informers_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/informers"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var namespaces = schema.GroupResource{Resource: "namespaces"}

func namespace(name string, version int) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(version)}}
}

// run starts f for the length of the test, and waits until it has all objects.
func run(t *testing.T, f *informers.Factory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	f.StartWithContext(ctx)
	wait, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	for what, synced := range f.WaitForCacheSync(wait.Done()) {
		if !synced {
			t.Fatalf("no objects of %v came", what)
		}
	}
}

func TestInformerFollowsTheStore(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchListClient=%v", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
			store := &objectstest.Store{}
			first := namespace("a", 7)
			store.Put(namespaces, first)
			f := informers.New(store, kinds.Table(api.Deps{}))
			informer := f.Core().V1().Namespaces()
			events := make(chan string, 10)
			_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { events <- "add " + obj.(*corev1.Namespace).Name },
				UpdateFunc: func(_, obj any) { events <- "update " + obj.(*corev1.Namespace).ResourceVersion },
				DeleteFunc: func(obj any) { events <- "delete " + obj.(*corev1.Namespace).Name },
			})
			if err != nil {
				t.Fatal(err)
			}
			run(t, f)
			if got, err := informer.Lister().Get("a"); err != nil || got != first {
				t.Errorf("Get = %p, %v; want the stored object %p itself", got, err, first)
			}
			store.Put(namespaces, namespace("b", 8))
			store.Put(namespaces, namespace("a", 9))
			store.Remove(namespaces, "", "b")
			for _, want := range []string{"add a", "add b", "update 9", "delete b"} {
				select {
				case got := <-events:
					if got != want {
						t.Errorf("event %q, want %q", got, want)
					}
				case <-time.After(time.Minute):
					t.Fatalf("no event %q", want)
				}
			}
		})
	}
}

func TestOtherVersionsAreConverted(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"},
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "h", Namespace: "n", ResourceVersion: "3"},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 4},
		})
	f := informers.New(store, kinds.Table(api.Deps{}))
	generic, err := f.ForResource(autoscalingv1.SchemeGroupVersion.WithResource("horizontalpodautoscalers"))
	if err != nil {
		t.Fatal(err)
	}
	generic.Informer()
	run(t, f)
	obj, err := generic.Lister().ByNamespace("n").Get("h")
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler); !ok || h.Spec.MaxReplicas != 4 {
		t.Errorf("got %#v", obj)
	}
}

func TestWhatIsNotServed(t *testing.T) {
	f := informers.New(&objectstest.Store{}, kinds.Table(api.Deps{}))
	if _, err := f.ForResource(
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}); err == nil {
		t.Error("an informer of an unknown resource")
	}
	lister := f.Admissionregistration().V1beta1().ValidatingAdmissionPolicies().Lister()
	run(t, f)
	if list, err := lister.List(labels.Everything()); err != nil || len(list) > 0 {
		t.Errorf("List = %v, %v; want nothing of %s", list, err, admissionv1beta1.SchemeGroupVersion)
	}
}

// TestGroups: an informer of the embedded factory would have no client to ask.
func TestGroups(t *testing.T) {
	f := informers.New(&objectstest.Store{}, kinds.Table(api.Deps{}))
	v := reflect.ValueOf(f)
	factory := reflect.TypeFor[interface {
		Start(<-chan struct{})
		Shutdown()
	}]()
	for i := range v.NumMethod() {
		method := v.Type().Method(i)
		if method.Type.NumIn() != 1 || method.Type.NumOut() != 1 || method.Name == "InformerName" {
			continue
		}
		group := v.Method(i).Call(nil)[0].Elem()
		field := group.Elem().FieldByName("factory")
		if !field.IsValid() {
			t.Fatalf("%s: %s has no factory", method.Name, group.Type())
		}
		if got := field.Elem().Type(); got != reflect.TypeFor[*informers.Factory]() || !got.Implements(factory) {
			t.Errorf("%s makes its informers by %s", method.Name, got)
		}
	}
}
