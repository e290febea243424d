package storage

import (
	"context"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// ephemeralPod returns a pod with the ephemeral volume "scratch" at /data.
func ephemeralPod(t *suite.T, name string, class *string, args ...string) *corev1.Pod {
	p := t.Pod(name, args...)
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"made": "for-pod"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: class, Resources: corev1.VolumeResourceRequirements{Requests: size("1Mi")},
			},
		}}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/data"}}
	return p
}

func ephemeralClaim(ctx context.Context, t *suite.T) {
	claim(ctx, t, "second-scratch", "1Mi", ptr.To(class(t)))
	for _, name := range []string{"first", "second"} {
		p := ephemeralPod(t, name, ptr.To(class(t)), "sleep", "forever")
		p.Spec.SchedulerName = "none" // claims come before nodes
		t.CreatePod(ctx, p)
	}
	owner, err := t.GetPod("first")(ctx)
	t.Must(err, "read the pod")
	c := suite.WaitFor(ctx, t, "the pod's claim", getClaim(t, "first-scratch"), Not(BeNil()))
	t.Expect(c.Labels).To(HaveKeyWithValue("made", "for-pod"))
	t.Expect(c.OwnerReferences).To(ConsistOf(And(HaveField("UID", Equal(owner.UID)),
		HaveField("Controller", HaveValue(BeTrue())), HaveField("BlockOwnerDeletion", HaveValue(BeTrue())))))
	suite.WaitFor(ctx, t, "the reason", reasons(t, "Pod", "second"), ContainElement("FailedBinding"))
	foreign, err := getClaim(t, "second-scratch")(ctx)
	t.Must(err, "read the claim that isn't the pod's")
	t.Expect(foreign.OwnerReferences).To(BeEmpty())
}

func ephemeralVolume(ctx context.Context, t *suite.T) {
	succeed(ctx, t, ephemeralPod(t, "p", nil, "write", "/data/file", "text", "then", "cat", "/data/file"))
	c := awaitBound(ctx, t, "p-scratch")
	deletePod(ctx, t, "p")
	suite.WaitFor(ctx, t, "the claim gone", isGone(getClaim(t, "p-scratch")), BeTrue())
	suite.WaitFor(ctx, t, "the volume gone", isGone(getVolume(t, c.Spec.VolumeName)), BeTrue())
}

func defaultClass(ctx context.Context, t *suite.T) {
	claim(ctx, t, "c", "1Mi", nil)
	c := suite.WaitFor(ctx, t, "the claim's class", getClaim(t, "c"), HaveField("Spec.StorageClassName", Not(BeNil())))
	class, err := t.Client.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	t.Must(err, "read the class")
	t.Expect(class.Annotations).To(HaveKeyWithValue("storageclass.kubernetes.io/is-default-class", "true"))
}

func dynamicVolume(ctx context.Context, t *suite.T) {
	claim(ctx, t, "c", "1Mi", nil)
	succeed(ctx, t, user(t, "writer", "c", "write", "/data/file", "kept"))
	c := awaitBound(ctx, t, "c")
	v := awaitVolume(ctx, t, c.Spec.VolumeName, corev1.VolumeBound)
	t.Expect(v.Spec.Capacity.Storage().Cmp(*c.Spec.Resources.Requests.Storage())).To(BeNumerically(">=", 0),
		"the volume is as large as asked for")
	t.Expect(v.Spec.StorageClassName).To(Equal(*c.Spec.StorageClassName))
	deletePod(ctx, t, "writer")
	suite.WaitFor(ctx, t, "the first pod gone", isGone(t.GetPod("writer")), BeTrue())
	succeed(ctx, t, user(t, "reader", "c", "cat", "/data/file"))
	log, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs("reader", &corev1.PodLogOptions{}).DoRaw(ctx)
	t.Must(err, "read what the second pod found")
	t.Expect(string(log)).To(ContainSubstring("kept"))
}

func dynamicDelete(ctx context.Context, t *suite.T) {
	claim(ctx, t, "c", "1Mi", nil)
	succeed(ctx, t, user(t, "p", "c", "write", "/data/file", "x"))
	c := awaitBound(ctx, t, "c")
	v, err := getVolume(t, c.Spec.VolumeName)(ctx)
	t.Must(err, "read the volume")
	t.Expect(v.Annotations).To(HaveKey("pv.kubernetes.io/provisioned-by"))
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		_, err = t.Client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
		t.Must(err, "have the volume deleted with its claim")
	}
	deletePod(ctx, t, "p")
	deleteClaim(ctx, t, "c")
	suite.WaitFor(ctx, t, "the volume gone", isGone(getVolume(t, v.Name)), BeTrue())
}

func claimProtection(ctx context.Context, t *suite.T) {
	claim(ctx, t, "c", "1Mi", nil)
	t.CreatePod(ctx, user(t, "p", "c", "sleep", "forever"))
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("p"), HaveField("Status.Phase", Equal(corev1.PodRunning)))
	deleteClaim(ctx, t, "c")
	suite.Never(ctx, t, "the claim gone", isGone(getClaim(t, "c")), BeTrue())
	deletePod(ctx, t, "p")
	suite.WaitFor(ctx, t, "the claim gone", isGone(getClaim(t, "c")), BeTrue())
}

func statefulSet(ctx context.Context, t *suite.T) {
	labels := map[string]string{"app": "set"}
	pod := user(t, "set", "unused", "append", "/data/starts", "$(POD)", "then", "serve")
	pod.Spec.RestartPolicy, pod.Spec.Volumes = corev1.RestartPolicyAlways, nil
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}
	_, err := t.Client.AppsV1().StatefulSets(t.Namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2), ServiceName: "set", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: size("1Mi")},
				},
			}},
		},
	}, metav1.CreateOptions{})
	t.Must(err, "create the set")
	running := HaveField("Status.Phase", Equal(corev1.PodRunning))
	first := suite.WaitFor(ctx, t, "the first pod", t.GetPod("set-0"), running)
	suite.WaitFor(ctx, t, "the second pod", t.GetPod("set-1"), running)
	t.Expect(awaitBound(ctx, t, "data-set-0").Spec.VolumeName).NotTo(Equal(awaitBound(ctx, t,
		"data-set-1").Spec.VolumeName))
	deletePod(ctx, t, "set-0")
	again := suite.WaitFor(ctx, t, "the pod again", t.GetPod("set-0"),
		And(running, HaveField("UID", Not(Equal(first.UID)))))
	found, _, err := t.Exec(ctx, "set-0", "", "testimage", "cat", "/data/starts")
	t.Must(err, "read the volume in the pod")
	t.Expect(found).To(And(ContainSubstring(string(first.UID)), ContainSubstring(string(again.UID))),
		"what both pods wrote")
}
