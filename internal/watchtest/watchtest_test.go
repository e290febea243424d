package watchtest

import (
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEventsAreIsolated: changes by one watcher to the objects of its events are not visible to other watchers.
func TestEventsAreIsolated(t *testing.T) {
	client := fake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "before"}})
	Copy(client)
	pods := client.CoreV1().Pods("ns")
	w, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "after"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"before", "after"} {
		pod := (<-w.ResultChan()).Object.(*v1.Pod)
		if pod.Name != name {
			t.Errorf("%s came, want %s", pod.Name, name)
		}
		pod.Labels = map[string]string{"changed": "here"}
		if kept, err := pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(kept.Labels) > 0 {
			t.Errorf("%s: %v, %v", name, kept, err)
		}
	}
	if err := pods.Delete(t.Context(), "after", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Stop() // though there is something to read
	for range w.ResultChan() {
	}
}
