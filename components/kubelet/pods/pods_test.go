package pods

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/spec"
)

// The response to a status update can arrive after the watch event of a deletion: the deletion must not be lost.
func TestWrittenTakesNothingBack(t *testing.T) {
	m := New(Config{Builder: &spec.Builder{}, Clock: clock.RealClock{}})
	version := func(resourceVersion string, change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u",
			ResourceVersion: resourceVersion}}
		change(p)
		return p
	}
	deleted := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	m.Set(version("9", func(*v1.Pod) {}))
	m.Set(version("11", deleted))
	take := func() {
		w := m.workers["u"]
		w.receive(w.inbox.takeEvents())
		w.publish()
	}
	m.Written(version("10", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }))
	take()
	if pod := m.Find("n", "p"); pod.DeletionTimestamp == nil || pod.ResourceVersion != "11" {
		t.Errorf("version %s took the place of a newer one", pod.ResourceVersion)
	}
	m.Written(version("12", func(p *v1.Pod) { deleted(p); p.Status.Phase = v1.PodRunning }))
	take()
	if pod := m.Find("n", "p"); pod.ResourceVersion != "12" {
		t.Errorf("version 12 was dropped for %s", pod.ResourceVersion)
	}
}
