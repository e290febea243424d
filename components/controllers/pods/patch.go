package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Patcher returns what applies strategic merge patches to pods through a client.
func Patcher(client kubernetes.Interface) func(ctx context.Context, pod *v1.Pod, patch []byte) error {
	return func(ctx context.Context, pod *v1.Pod, patch []byte) error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{})
		return err
	}
}
