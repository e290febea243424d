package why_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/why"
)

// An explanation is a function of objects: no cluster is needed for it.
func ExampleExplain() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "nginx:nope"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: `Back-off pulling image "nginx:nope"`}},
		}}},
	}
	answer := why.Explain(pod, why.Snapshot{})
	fmt.Println(answer.State, answer.Causes[0].Reason)
	// Output:
	// Pending ImagePullBackOff
}
