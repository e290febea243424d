package informer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// lister is an API server that lists one object of each resource it has, and has watches without events.
type lister struct {
	lists map[string]any // by path

	mu       sync.Mutex
	selector map[string]string // the field selectors of lists, by path
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	list, ok := l.lists[r.URL.Path]
	query := r.URL.Query()
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case query.Has("sendInitialEvents"):
		w.WriteHeader(http.StatusUnprocessableEntity)
		status := apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil).Status()
		_ = json.NewEncoder(w).Encode(&status)
	case query.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		l.mu.Lock()
		l.selector[r.URL.Path] = query.Get("fieldSelector")
		l.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	}
}

// TestFactory: informers of several groups read through one client, each at its own path and with its own selection.
func TestFactory(t *testing.T) {
	t.Parallel()
	const pods, deployments = "/prefix/api/v1/pods", "/prefix/apis/apps/v1/deployments"
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	l := &lister{
		selector: map[string]string{},
		lists: map[string]any{
			pods: &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{{ObjectMeta: meta}}},
			deployments: &appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []appsv1.Deployment{{ObjectMeta: meta}}},
		},
	}
	server := httptest.NewServer(l)
	defer server.Close()
	defer server.CloseClientConnections()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL + "/prefix"})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFactory(client, 0, WithoutManagedFields, WithSelection(&corev1.Pod{}, func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=Failed"
	}))
	podLister, deploymentLister := f.Core().V1().Pods().Lister(), f.Apps().V1().Deployments().Lister()
	f.StartWithContext(t.Context())
	for of, synced := range f.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Errorf("%v is not synced", of)
		}
	}
	if pod, err := podLister.Pods("ns").Get("a"); err != nil || pod.ManagedFields != nil {
		t.Errorf("got %v, %v", pod, err)
	}
	if all, err := deploymentLister.List(labels.Everything()); err != nil || len(all) != 1 || all[0].Name != "a" {
		t.Errorf("got %v, %v", all, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.selector[pods] != "status.phase!=Failed" || l.selector[deployments] != "" {
		t.Errorf("field selectors: %v", l.selector)
	}
}

// TestFactoryOfFake: the informers of a fake clientset work, though it has no requests.
func TestFactoryOfFake(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	f := NewFactory(client, 0, nil)
	pods := f.Core().V1().Pods().Lister()
	f.StartWithContext(t.Context())
	f.WaitForCacheSync(t.Context().Done())
	if _, err := pods.Pods("ns").Get("a"); err != nil {
		t.Error(err)
	}
}
