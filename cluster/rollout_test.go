package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// TestRollouts rolls many deployments of one template at once, with all components in this process. Their objects share
// memory: the race detector finds writes to shared objects.
func TestRollouts(t *testing.T) {
	const deployments, rounds = 8, 3
	_, client := started(t, WithNodes(2))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i := range deployments {
		name := fmt.Sprint("web-", i)
		group.Go(func() error {
			if _, err := client.AppsV1().Deployments("default").Create(ctx, annotated(name),
				metav1.CreateOptions{}); err != nil {
				return err
			}
			for round := range rounds {
				patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, round)
				_, err := client.AppsV1().Deployments("default").Patch(ctx, name, types.StrategicMergePatchType, patch,
					metav1.PatchOptions{})
				if err != nil {
					return err
				}
				if err := rolled(ctx, client, name); err != nil {
					return fmt.Errorf("%s, round %d: %w", name, round, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil &&
			(p.Annotations["round"] != fmt.Sprint(rounds-1) || p.Annotations["kept"] != "yes") {
			t.Errorf("%s has %v", p.Name, p.Annotations)
		}
	}
}

func annotated(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"kept": "yes"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					Containers:                    []corev1.Container{{Name: "c", Image: "web"}},
				},
			},
		},
	}
}

// rolled waits until a deployment has nothing but available pods of its newest template.
func rolled(ctx context.Context, client kubernetes.Interface, name string) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		d, err := client.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas &&
			s.Replicas == s.UpdatedReplicas &&
			s.AvailableReplicas == s.Replicas, nil
	})
}
