package ephemeralvolume

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{
			Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
				Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast")},
			}}}}}},
	}
}

func await(t *testing.T, client *fake.Clientset, name string, ok func(*v1.PersistentVolumeClaim) bool) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && ok(c), fmt.Sprintf("%+v %v", c, err)
	})
}

func TestClaims(t *testing.T) {
	foreign := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q-scratch", UID: "foreign"}}
	leaving := pod("leaving")
	leaving.DeletionTimestamp = &metav1.Time{}
	client := runnertest.NewClient(pod("p"), pod("q"), foreign, leaving)
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env) })
	its := func(c *v1.PersistentVolumeClaim) bool {
		owner := metav1.GetControllerOf(c)
		return owner != nil && owner.Kind == "Pod" && owner.UID == "uid-p" && *owner.BlockOwnerDeletion &&
			c.Labels["a"] == "b" && c.Annotations["c"] == "d" && *c.Spec.StorageClassName == "fast"
	}
	await(t, client, "p-scratch", its)
	runnertest.Saw(t, events,
		"Warning FailedBinding ephemeral volume scratch: PVC ns/q-scratch was not created for pod ns/q "+
			"(pod is not owner)")
	claims := client.CoreV1().PersistentVolumeClaims("ns")
	if err := claims.Delete(t.Context(), "p-scratch", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, "p-scratch", its)
	all, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 2 {
		t.Errorf("claims %v %v, want none of a pod that is being deleted", all.Items, err)
	}
}
