package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
)

// A pod that asks for what no engine of this kind can give fails before it begins; one that runs already goes on.
func TestUnsupportedPodsFail(t *testing.T) {
	no := false
	for name, observed := range map[string]runtime.Pod{
		"new": {}, "running": {Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}},
	} {
		recorder := record.NewFakeRecorder(1)
		m := New(Config{
			Builder: &spec.Builder{}, Recorder: recorder, Clock: clock.RealClock{}, Node: func() *v1.Node { return nil },
		})
		w := newWorker(m, "u")
		w.pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{HostUsers: &no}}
		w.mu.Lock()
		w.admit(t.Context(), &observed)
		refused := w.rejected != nil && w.rejected.reason == "PodFeatureUnsupported" && w.rejected.never
		w.mu.Unlock()
		if refused != (name == "new") || w.admitted == refused || len(recorder.Events) > 0 != refused {
			t.Errorf("%s: refused: %+v, admitted: %v, %d events", name, w.rejected, w.admitted, len(recorder.Events))
		}
	}
}
