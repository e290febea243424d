package pods

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/spec"
)

func requesting(cpu string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if cpu != "" {
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	return pod
}

func TestBurstableShares(t *testing.T) {
	guaranteed := requesting("2")
	guaranteed.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1Mi")
	guaranteed.Spec.Containers[0].Resources.Limits = guaranteed.Spec.Containers[0].Resources.Requests
	for name, test := range map[string]struct {
		pods []*v1.Pod
		want int64
	}{
		"none":             {nil, 2},
		"only others":      {[]*v1.Pod{guaranteed, requesting("")}, 2},
		"the sum":          {[]*v1.Pod{requesting("250m"), guaranteed, requesting("750m")}, 1024},
		"more than is fit": {[]*v1.Pod{requesting("100000")}, 262144},
	} {
		if got := burstableShares(test.pods); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// TestNoPodsWhileShuttingDown: a new pod is refused in upstream's words.
func TestNoPodsWhileShuttingDown(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string // the reason
	}{
		"not":           {nil, ""},
		"shutting down": {errors.New("node is shutting down"), "NodeShutdown"},
	} {
		m := New(Config{ShuttingDown: func() error { return test.err }, Builder: &spec.Builder{},
			Recorder: &record.FakeRecorder{}, Node: func() *v1.Node { return nil }})
		w := newWorker(m, requesting(""))
		w.admit(t.Context())
		got, message := "", ""
		if why := w.state.rejected; why != nil {
			got, message = why.reason, why.statusMessage()
		}
		if got != test.want || got != "" && message != "Pod was rejected: Pod was rejected as the node is shutting down." {
			t.Errorf("%s: %q, %q, want %q", name, got, message, test.want)
		}
	}
}
