package admission

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
)

// TestTolerationSeconds: 0 seconds are not the default.
func TestTolerationSeconds(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   []int64
	}{
		{Config{}, []int64{300, 300}},
		{Config{NotReadySeconds: ptr.To[int64](0), UnreachableSeconds: ptr.To[int64](7)}, []int64{0, 7}},
	} {
		p, err := newTolerationSeconds(&c.config, nil)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := p.(admission.MutationInterface).Admit(context.Background(),
			admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{}, "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil),
			nil); err != nil {
			t.Fatal(err)
		}
		for i, toleration := range pod.Spec.Tolerations {
			if got := *toleration.TolerationSeconds; got != c.want[i] {
				t.Errorf("%s for %d seconds, want %d", toleration.Key, got, c.want[i])
			}
		}
	}
}
