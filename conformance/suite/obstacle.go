package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// obstacleTimeout bounds the look at what was in a case's way.
const obstacleTimeout = 10 * time.Second

// obstacle tells what, other than the requirement, may have made a case fail; "" when nothing shows. ctx is that of the
// run.
func (e *Engine) obstacle(ctx context.Context, c *Case, namespace string) string {
	if ctx.Err() != nil {
		return "the run was ended"
	}
	ctx, cancel := context.WithTimeout(ctx, obstacleTimeout)
	defer cancel()
	pods, err := e.Cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	var answered apierrors.APIStatus
	switch {
	case errors.As(err, &answered):
		return ""
	case err != nil:
		return fmt.Sprintf("the cluster was lost: %v", err)
	}
	for _, pod := range pods.Items {
		if reason := pullFailure(&pod, e.Cluster.Image); reason != "" {
			return reason
		}
		if reason := noCapacity(&pod); reason != "" && c.Component != Scheduler {
			return reason
		}
	}
	return ""
}

// pullFailure tells that a node can't get the suite's own image. Cases use others that can't be pulled on purpose.
func pullFailure(pod *corev1.Pod, image string) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			waiting := status.State.Waiting
			if waiting == nil || imageOf(pod, status.Name) != image {
				continue
			}
			switch waiting.Reason {
			case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName":
				return fmt.Sprintf("node %s can't pull the test image %s: %s", pod.Spec.NodeName, image, waiting.Message)
			}
		}
	}
	return ""
}

// imageOf is the image that a container of a pod was asked to run from; statuses name it as the runtime does.
func imageOf(pod *corev1.Pod, container string) string {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if c.Name == container {
				return c.Image
			}
		}
	}
	return ""
}

// noCapacity tells that no node has room for a pod.
func noCapacity(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable && strings.Contains(condition.Message, "Insufficient ") {
			return fmt.Sprintf("no node has room for pod %s: %s", pod.Name, condition.Message)
		}
	}
	return ""
}
