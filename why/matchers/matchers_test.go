package matchers

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quintet.dev/quintet/why"
)

func TestMatchers(t *testing.T) {
	failed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "failed"},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}}
	done := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "done"},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(failed, done).Build()
	g := NewWithT(t)
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gone"}}
	g.Expect(done).To(BeReady(t.Context(), c))
	g.Expect(failed).NotTo(BeReady(t.Context(), c))
	g.Expect(gone).To(BeGone(t.Context(), c))
	g.Expect(done).NotTo(BeGone(t.Context(), c))
	g.Expect(failed).To(BeState(t.Context(), c, why.Failed))
	g.Expect(failed).To(HaveCause(t.Context(), c, "Evicted"))
	g.Expect(done).NotTo(HaveCause(t.Context(), c, "Evicted"))

	m := BeReady(t.Context(), c)
	if ok, err := m.Match(failed); ok || err != nil {
		t.Errorf("a failed pod: %v, %v", ok, err)
	}
	if message := m.FailureMessage(failed); !strings.Contains(message, "Evicted: low on memory") {
		t.Errorf("the message does not say why: %s", message)
	}
	if _, err := m.Match("text"); err == nil {
		t.Error("a text is taken for an object")
	}
}
