package why

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func TestOf(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(broken("a")).Build()
	a, err := Of(t.Context(), c, named("a"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, a, "Pending", "ImagePullBackOff")
	if a, err = Of(t.Context(), c, named("b")); err != nil {
		t.Fatal(err)
	}
	expect(t, a, "Missing", "NotFound")
	if a.Object.String() != "Pod ns/b" {
		t.Errorf("it is about %v", a.Object)
	}
}

// TestForbiddenKinds: an explanation does without what its reader may not read, and fails by other errors.
func TestForbiddenKinds(t *testing.T) {
	answer := error(apierrors.NewForbidden(corev1.Resource("nodes"), "", errTest))
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(broken("a")).WithInterceptorFuncs(
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			opts ...client.ListOption) error {
			if _, nodes := list.(*corev1.NodeList); nodes {
				return answer
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	s, err := Read(t.Context(), c, broken("a"))
	if err != nil || s.known("Node") || !s.known("Pod") {
		t.Errorf("%v, unknown: %v", err, s.Unknown)
	}
	answer = errTest
	if _, err := Of(t.Context(), c, named("a")); !errors.Is(err, errTest) {
		t.Errorf("another error: %v", err)
	}
}

func TestWaiters(t *testing.T) {
	failed := testPod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(broken("a"), runningPod("b"), failed).Build()
	if err := WaitReady(t.Context(), c, named("b")); err != nil {
		t.Errorf("a pod that is ready: %v", err)
	}
	if err := WaitGone(t.Context(), c, named("c")); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := WaitReady(short, c, named("a"))
	var not *NotYet
	if !errors.As(err, &not) || !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "Container c has no image image:1") {
		t.Errorf("a pod without image: %v", err)
	}
	if err := WaitReady(t.Context(), c, named("failed")); !errors.As(err, &not) || not.Answer.State != Failed {
		t.Errorf("a pod that failed for good: %v", err)
	}
}
