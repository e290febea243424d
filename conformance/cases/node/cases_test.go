package node

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"quintet.dev/quintet/conformance/suite"
)

// TestEnded shows that a pod which ended otherwise than expected is reported at once, with its reason.
func TestEnded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "done"}, Status: corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory",
	}}
	var said string
	ended(t.Context(), &suite.T{
		Cluster:   &suite.Cluster{Client: fake.NewClientset(pod)},
		Gomega:    gomega.NewGomega(func(message string, _ ...int) { said = message }),
		Namespace: pod.Namespace,
	}, pod.Name, corev1.PodSucceeded)
	for _, want := range []string{"it is Failed", "Evicted", "the node was low on memory"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
}
