package pods

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/spec"
)

// The answer to a status write can come after the watch told of a deletion: the deletion must not be forgotten.
func TestWrittenTakesNothingBack(t *testing.T) {
	m := New(Config{Builder: &spec.Builder{}})
	version := func(resourceVersion string, change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", ResourceVersion: resourceVersion}}
		change(p)
		return p
	}
	deleted := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	m.Set(version("9", func(*v1.Pod) {}))
	m.Set(version("11", deleted))
	m.Written(version("10", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }))
	if pod := m.Find("n", "p"); pod.DeletionTimestamp == nil {
		t.Errorf("version %s took the place of a newer one", pod.ResourceVersion)
	}
	m.Written(version("12", func(p *v1.Pod) { deleted(p); p.Status.Phase = v1.PodRunning }))
	if pod := m.Find("n", "p"); pod.ResourceVersion != "12" {
		t.Errorf("version 12 was dropped for %s", pod.ResourceVersion)
	}
}
