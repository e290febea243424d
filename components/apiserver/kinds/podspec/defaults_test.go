package podspec

import (
	"maps"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAnnotationsThatAreSharedAreNotWrittenTo: what is read from the store, or was written to it, gets its defaults,
// and has its annotations in common with other objects, which are read meanwhile.
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

// TestNegativeTimesToStop: of pods they are gone as soon as one is read, before another reader sees it; templates keep
// theirs.
func TestNegativeTimesToStop(t *testing.T) {
	for seconds, want := range map[int64]int64{-5: 1, -1: 1, 0: 0, 7: 7} {
		pod, template, given := &corev1.Pod{}, &corev1.PodTemplateSpec{}, seconds
		pod.Spec.TerminationGracePeriodSeconds, template.Spec.TerminationGracePeriodSeconds = &given, &given
		DefaultPod(pod)
		DefaultTemplate(template)
		if is := *pod.Spec.TerminationGracePeriodSeconds; is != want {
			t.Errorf("%d of a pod: %d", seconds, is)
		}
		if is := *template.Spec.TerminationGracePeriodSeconds; is != seconds {
			t.Errorf("%d of a template: %d", seconds, is)
		}
	}
}
