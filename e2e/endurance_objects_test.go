package e2e

import (
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// createEnduring creates pods of many kinds: a Deployment, a StatefulSet with volumes of the CSI driver, and a
// DaemonSet with a volume in memory. All have tokens that are projected.
func (w *world) createEnduring() {
	w.t.Helper()
	w.createDeployment("web", 4)
	labels := map[string]string{"app": "kept"}
	spec := podSpec()
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	_, err := w.client.AppsV1().StatefulSets(space).Create(w.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template:            corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To("csi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("16Mi")}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	w.must(err, "create the stateful set")
	labels = map[string]string{"app": "each"}
	spec = podSpec()
	spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory,
			SizeLimit: ptr.To(resource.MustParse("1Mi"))}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}}
	_, err = w.client.AppsV1().DaemonSets(space).Create(w.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "each"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}, metav1.CreateOptions{})
	w.must(err, "create the daemon set")
	w.waitReady("web", 4)
	w.Eventually(func() (int32, error) {
		set, err := w.client.AppsV1().DaemonSets(space).Get(w.t.Context(), "each", metav1.GetOptions{})
		return set.Status.NumberReady, err
	}).Should(BeEquivalentTo(2))
}

// createJob creates a job of two pods, one after the other, that end soon.
func (w *world) createJob(name string) {
	w.t.Helper()
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	spec.Containers[0].Args = []string{"sleep", "1s"}
	_, err := w.client.BatchV1().Jobs(space).Create(w.t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Completions: ptr.To[int32](2), BackoffLimit: ptr.To[int32](20),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: spec}},
	}, metav1.CreateOptions{})
	w.must(err, "create job %s", name)
}
