package podspec

import (
	"maps"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAnnotationsThatAreSharedAreNotWrittenTo: what is read from the store, or was written to it, gets its defaults, and has its
// annotations in common with other objects, which are read meanwhile.
func TestAnnotationsThatAreSharedAreNotWrittenTo(t *testing.T) {
	former := map[string]string{"pod.beta.kubernetes.io/init-containers": "[]", "color": "blue"}
	before := maps.Clone(former)
	pod, template := &corev1.Pod{}, &corev1.PodTemplateSpec{}
	pod.Annotations, template.Annotations = former, former
	DefaultPod(pod)
	DefaultTemplate(template)
	for _, left := range []map[string]string{pod.Annotations, template.Annotations} {
		if len(left) != 1 || left["color"] != "blue" {
			t.Errorf("annotations %v", left)
		}
	}
	if !maps.Equal(former, before) {
		t.Errorf("what others see is %v", former)
	}

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10000 {
				dropInitAnnotations(&pod.Annotations)
			}
		})
	}
	all.Wait() // the runtime ends a program that writes to a map at once from several places
}
