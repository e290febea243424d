package suite

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pod returns a pod with one container of the test image, called with args, that is not restarted and ends at once when
// asked to. Cases change it to their needs and create it themselves.
func (t *T) Pod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: map[string]string{"app": name}},
		Spec:       t.podSpec(corev1.RestartPolicyNever, args...),
	}
}

func (t *T) podSpec(restart corev1.RestartPolicy, args ...string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 restart,
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		AutomountServiceAccountToken:  ptr.To(false),
		Containers:                    []corev1.Container{{Name: "main", Image: t.Image, Args: args}},
	}
}

// ReplicaSet returns a ReplicaSet of pods that serve until they are asked to end.
func (t *T) ReplicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: t.template(labels),
		},
	}
}

// Deployment returns a Deployment of pods that serve until they are asked to end.
func (t *T) Deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: t.template(labels),
		},
	}
}

func (t *T) template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       t.podSpec(corev1.RestartPolicyAlways, "serve"),
	}
}

// CreatePod creates pod in the case's namespace.
func (t *T) CreatePod(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	created, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	t.Must(err, "create pod %s", pod.Name)
	return created
}

// GetPod returns a function that reads a pod, for WaitFor.
func (t *T) GetPod(name string) func(ctx context.Context) (*corev1.Pod, error) {
	return func(ctx context.Context) (*corev1.Pod, error) {
		return t.Client.CoreV1().Pods(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// ListPods returns a function that lists the pods with a label selector, for WaitFor.
func (t *T) ListPods(selector string) func(ctx context.Context) ([]corev1.Pod, error) {
	return func(ctx context.Context) ([]corev1.Pod, error) {
		list, err := t.Client.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
}
