package deployment_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/deployment"
	"quintet.dev/quintet/components/controllers/replicaset"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, client *fake.Clientset) func(text string) {
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return deployment.New(env) },
		func(env runner.Env) (runner.Controller, error) { return replicaset.New(env) })
	return func(text string) {
		t.Helper()
		runnertest.Saw(t, events, text)
	}
}

func web(replicas int32) *apps.Deployment {
	labels := map[string]string{"app": "web"}
	return &apps.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"},
		Spec: apps.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			ProgressDeadlineSeconds: ptr.To[int32](600), RevisionHistoryLimit: ptr.To[int32](1),
			Strategy: apps.DeploymentStrategy{Type: apps.RollingUpdateDeploymentStrategyType},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "v1"}}}},
		},
	}
}

// serve makes all pods ready, as a kubelet would, and waits until the deployment is complete with image.
func serve(t *testing.T, client *fake.Clientset, image string, want int32) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		pods, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		serving := int32(0)
		for _, pod := range pods.Items {
			if pod.Spec.Containers[0].Image == image {
				serving++
			}
			if len(pod.Status.Conditions) == 0 {
				pod.Status = v1.PodStatus{Phase: v1.PodRunning,
					Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
						LastTransitionTime: metav1.Now()}}}
				// it may have gone
				_, _ = client.CoreV1().Pods("ns").UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{})
			}
		}
		d, err := client.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done := serving == want && int32(len(pods.Items)) == want && d.Status.AvailableReplicas == want &&
			d.Status.UpdatedReplicas == want
		return done, fmt.Sprintf("%d of %d pods with %s, status %+v", serving, len(pods.Items), image, d.Status)
	})
}

func roll(t *testing.T, client *fake.Clientset, image string) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		d, err := client.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.Spec.Template.Spec.Containers[0].Image = image
		_, err = client.AppsV1().Deployments("ns").Update(t.Context(), d, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func TestRollsAndRollsBack(t *testing.T) {
	client := runnertest.NewClient(web(3))
	saw := start(t, client)
	serve(t, client, "v1", 3)
	saw("Scaled up replica set web-")
	roll(t, client, "v2")
	serve(t, client, "v2", 3)
	saw("from 1 to 0")
	roll(t, client, "v1")
	serve(t, client, "v1", 3)
	d, err := client.AppsV1().Deployments("ns").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Annotations[deployment.RevisionAnnotation]; got != "3" {
		t.Errorf("revision %s after the rollback, want 3", got)
	}
	sets, err := client.AppsV1().ReplicaSets("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 2 {
		t.Errorf("%d sets, want 2: %v", len(sets.Items), err)
	}
}

func TestAdoptsOrphans(t *testing.T) {
	labels := map[string]string{"app": "web"}
	orphan := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "orphan", UID: "orphan", Labels: labels},
		Spec:   v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "v1"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning}}
	set := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "set"},
		Spec: apps.ReplicaSetSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: web(1).Spec.Template}}
	client := runnertest.NewClient(orphan, set)
	start(t, client)("Created pod")
	runnertest.Eventually(t, func() (bool, string) {
		pod, err := client.CoreV1().Pods("ns").Get(t.Context(), "orphan", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ref := metav1.GetControllerOf(pod)
		all, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		return err == nil && ref != nil && ref.UID == "set" && len(all.Items) == 2,
			fmt.Sprintf("controller %v, %d pods", ref, len(all.Items))
	})
}
