package persistentvolume

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var options = Options{SyncPeriod: 15 * time.Second, DynamicProvisioning: true,
	HostPath: Recycling{Timeout: time.Minute, PerGiB: 30 * time.Second}}

func start(t *testing.T, client *fake.Clientset) func(string) {
	t.Helper()
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, options) })
	return func(text string) { runnertest.Saw(t, events, text) }
}

func awaitVolume(t *testing.T, client *fake.Clientset, name string, ok func(*v1.PersistentVolume) bool) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		v, err := client.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && ok(v), fmt.Sprintf("%+v %v", v, err)
	})
}

func awaitClaim(t *testing.T, client *fake.Clientset, name string, ok func(*v1.PersistentVolumeClaim) bool) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && ok(c), fmt.Sprintf("%+v %v", c, err)
	})
}

func TestBindAndRelease(t *testing.T) {
	client := runnertest.NewClient(volume("v", "2Gi", "", phase(v1.VolumePending)), claim("c", "1Gi", ""))
	start(t, client)
	awaitClaim(t, client, "c", func(c *v1.PersistentVolumeClaim) bool {
		capacity := c.Status.Capacity[v1.ResourceStorage]
		return c.Status.Phase == v1.ClaimBound && c.Spec.VolumeName == "v" && capacity.String() == "2Gi" &&
			c.Annotations[storagehelpers.AnnBindCompleted] == "yes" &&
			c.Annotations[storagehelpers.AnnBoundByController] == "yes"
	})
	awaitVolume(t, client, "v", func(v *v1.PersistentVolume) bool {
		return v.Status.Phase == v1.VolumeBound && v.Spec.ClaimRef.UID == "uid-c" &&
			v.Annotations[storagehelpers.AnnBoundByController] == "yes"
	})
	if err := client.CoreV1().PersistentVolumeClaims("ns").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitVolume(t, client, "v", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeReleased })
}

func TestLostClaim(t *testing.T) {
	client := runnertest.NewClient(volume("v", "2Gi", "", phase(v1.VolumePending)), claim("c", "1Gi", ""))
	saw := start(t, client)
	awaitClaim(t, client, "c", func(c *v1.PersistentVolumeClaim) bool { return c.Status.Phase == v1.ClaimBound })
	if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), "v", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitClaim(t, client, "c", func(c *v1.PersistentVolumeClaim) bool { return c.Status.Phase == v1.ClaimLost })
	saw("Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!")
}

func TestDefaultClassComesLater(t *testing.T) {
	client := runnertest.NewClient(claim("c", "1Gi", "", classless))
	saw := start(t, client)
	saw("FailedBinding")
	standard := class("standard", "example.com/x", storagev1.VolumeBindingImmediate,
		map[string]string{defaultAnnotation: "true"})
	if _, err := client.StorageV1().StorageClasses().Create(t.Context(), standard, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitClaim(t, client, "c", func(c *v1.PersistentVolumeClaim) bool {
		return c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == "standard" &&
			c.Annotations[storagehelpers.AnnStorageProvisioner] == "example.com/x" &&
			c.Annotations[storagehelpers.AnnBetaStorageProvisioner] == "example.com/x"
	})
	saw("ExternalProvisioning")
}

func TestRecycle(t *testing.T) {
	for name, c := range map[string]struct {
		ended v1.PodPhase
		want  v1.PersistentVolumePhase
		event string
	}{
		"emptied": {v1.PodSucceeded, v1.VolumeAvailable, "Normal VolumeRecycled Volume recycled"},
		"failed":  {v1.PodFailed, v1.VolumeFailed, "Warning VolumeFailedRecycle Recycle failed: full"},
	} {
		t.Run(name, func(t *testing.T) {
			released := volume("v", "4Gi", "", reservedFor("ns", "gone", "uid-gone"), phase(v1.VolumeBound),
				policy(v1.PersistentVolumeReclaimRecycle), annotated[v1.PersistentVolume](storagehelpers.AnnBoundByController,
					"yes"))
			client := runnertest.NewClient(released)
			saw := start(t, client)
			pods := client.CoreV1().Pods("default")
			var pod *v1.Pod
			runnertest.Eventually(t, func() (bool, string) {
				var err error
				pod, err = pods.Get(t.Context(), "recycler-for-v", metav1.GetOptions{})
				return err == nil, fmt.Sprint(err)
			})
			if pod.Spec.Volumes[0].HostPath == nil || *pod.Spec.ActiveDeadlineSeconds != 120 {
				t.Errorf("recycler %+v", pod.Spec)
			}
			pod = pod.DeepCopy()
			pod.Status = v1.PodStatus{Phase: c.ended, Message: "full"}
			if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitVolume(t, client, "v", func(v *v1.PersistentVolume) bool {
				return v.Status.Phase == c.want && (v.Spec.ClaimRef == nil) == (c.want == v1.VolumeAvailable)
			})
			saw(c.event)
		})
	}
}

func TestDeleteReleased(t *testing.T) {
	client := runnertest.NewClient(volume("v", "1Gi", "", reservedFor("ns", "gone", "uid-gone"), phase(v1.VolumeBound),
		policy(v1.PersistentVolumeReclaimDelete)))
	start(t, client)
	runnertest.Eventually(t, func() (bool, string) {
		all, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == 0, fmt.Sprint(all, err)
	})
}
