package codec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
)

func TestSameContent(t *testing.T) {
	a, b := registrytest.Pod(), registrytest.Pod()
	a.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	b.Spec.InitContainers = []corev1.Container{} // as good as none
	if !codec.SameContent(a, b) {
		t.Error("pods that differ in nothing that counts are told apart")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"metadata": func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"spec":     func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"status":   func(p *corev1.Pod) { p.Status.Message = "m" },
	} {
		c := registrytest.Pod()
		change(c)
		if codec.SameContent(a, c) {
			t.Errorf("a change of the %s doesn't count", name)
		}
	}
}
