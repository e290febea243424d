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

// A pod with features that the engine does not support fails before it starts; a running one continues.
func TestUnsupportedPodsFail(t *testing.T) {
	strict := v1.SupplementalGroupsPolicyStrict
	context := &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
	for name, observed := range map[string]runtime.Pod{
		"new": {}, "running": {Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}},
	} {
		recorder := record.NewFakeRecorder(1)
		m := New(Config{
			Builder: &spec.Builder{}, Recorder: recorder, Clock: clock.RealClock{},
			Node: func() *v1.Node { return nil },
		})
		w := newWorker(m, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"},
			Spec: v1.PodSpec{SecurityContext: context}})
		w.state.observed = observed
		decided, s := w.admit(t.Context()), &w.state
		refused := s.rejected != nil && s.rejected.reason == "SupplementalGroupsPolicyNotSupported" && s.rejected.never
		if !decided || refused != (name == "new") || s.admitted == refused || len(recorder.Events) > 0 != refused {
			t.Errorf("%s: refused: %+v, admitted: %v, %d events", name, s.rejected, s.admitted, len(recorder.Events))
		}
	}
}
