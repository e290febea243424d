package alwayspullimages

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// TestUpdates: a change that brings a container another image is held to the rule, even if a volume had that image.
func TestUpdates(t *testing.T) {
	pod := func(container, volume string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: container, ImagePullPolicy: corev1.PullNever}},
			Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{
					Image: &corev1.ImageVolumeSource{Reference: volume, PullPolicy: corev1.PullNever}}}},
		}}
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		held bool
	}{
		"no new image":              {pod("a", "v"), false},
		"new image":                 {pod("b", "v"), true},
		"image that a volume had":   {pod("v", "v"), true},
		"new image of a volume":     {pod("a", "w"), false},
		"image that a container is": {pod("a", "a"), false},
	} {
		a := admission.NewAttributesRecord(c.pod, pod("a", "v"), schema.GroupVersionKind{}, "ns", "p",
			corev1.SchemeGroupVersion.WithResource("pods"), "",
			admission.Update, nil, false, nil)
		if err := New().Validate(context.Background(), a, nil); (err != nil) != c.held {
			t.Errorf("%s: error %v", name, err)
		}
		if err := New().Admit(context.Background(), a, nil); err != nil ||
			(c.pod.Spec.Containers[0].ImagePullPolicy == corev1.PullAlways) != c.held {
			t.Errorf("%s: error %v, policy %s", name, err, c.pod.Spec.Containers[0].ImagePullPolicy)
		}
	}
}
