package storage

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func staticBinding(ctx context.Context, t *suite.T) {
	labelled := func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"kind": "good"} }
	volume(ctx, t, "large", "10Gi", labelled)
	best := volume(ctx, t, "fits", "3Gi", labelled)
	volume(ctx, t, "small", "1Gi", labelled)
	volume(ctx, t, "other-label", "2Gi")
	volume(ctx, t, "other-class", "2Gi", labelled, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName += "-x" })
	volume(ctx, t, "other-mode", "2Gi", labelled, func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	})
	volume(ctx, t, "block", "2Gi", labelled, func(v *corev1.PersistentVolume) {
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	})
	claim(ctx, t, "c", "2Gi", ptr.To(class(t)), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "good"}}
	})
	c := awaitBound(ctx, t, "c")
	t.Expect(c.Spec.VolumeName).To(Equal(best))
	t.Expect(c.Status.AccessModes).To(ConsistOf(corev1.ReadWriteOnce))
	t.Expect(c.Status.Capacity.Storage().String()).To(Equal("3Gi"), "the claim's capacity is the volume's")
	t.Expect(c.Annotations).To(And(HaveKeyWithValue("pv.kubernetes.io/bind-completed", "yes"),
		HaveKeyWithValue("pv.kubernetes.io/bound-by-controller", "yes")))
	v := awaitVolume(ctx, t, best, corev1.VolumeBound)
	t.Expect(v.Spec.ClaimRef).To(HaveField("UID", Equal(c.UID)))
	t.Expect(v.Status.LastPhaseTransitionTime).NotTo(BeNil())
}

func reservedVolume(ctx context.Context, t *suite.T) {
	reserved := volume(ctx, t, "v", "1Gi", func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: t.Namespace, Name: "chosen"}
	})
	awaitVolume(ctx, t, reserved, corev1.VolumeAvailable)
	claim(ctx, t, "other", "1Gi", ptr.To(class(t)))
	claim(ctx, t, "chosen", "1Gi", ptr.To(class(t)))
	t.Expect(awaitBound(ctx, t, "chosen").Spec.VolumeName).To(Equal(reserved))
	suite.Never(ctx, t, "the other claim bound", getClaim(t, "other"), HaveField("Status.Phase", Equal(corev1.ClaimBound)))
}

func waitForConsumer(ctx context.Context, t *suite.T) {
	_, err := t.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class(t)}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	t.Must(err, "create the class")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.StorageV1().StorageClasses().Delete(ctx, class(t), metav1.DeleteOptions{})
	})
	free := volume(ctx, t, "v", "1Gi")
	awaitVolume(ctx, t, free, corev1.VolumeAvailable)
	claim(ctx, t, "c", "1Gi", ptr.To(class(t)))
	suite.WaitFor(ctx, t, "the reason", reasons(t, "PersistentVolumeClaim", "c"), ContainElement("WaitForFirstConsumer"))
	suite.Never(ctx, t, "the claim bound", getClaim(t, "c"), HaveField("Status.Phase", Not(Equal(corev1.ClaimPending))))
}

func retain(ctx context.Context, t *suite.T) {
	kept := volume(ctx, t, "v", "1Gi")
	claim(ctx, t, "c", "1Gi", ptr.To(class(t)))
	awaitBound(ctx, t, "c")
	deleteClaim(ctx, t, "c")
	awaitVolume(ctx, t, kept, corev1.VolumeReleased)
	claim(ctx, t, "c", "1Gi", ptr.To(class(t)))
	suite.Never(ctx, t, "the volume given away", getVolume(t, kept), HaveField("Status.Phase",
		Not(Equal(corev1.VolumeReleased))))
}

func lostClaim(ctx context.Context, t *suite.T) {
	gone := volume(ctx, t, "v", "1Gi")
	claim(ctx, t, "c", "1Gi", ptr.To(class(t)))
	awaitBound(ctx, t, "c")
	volumes := t.Client.CoreV1().PersistentVolumes()
	t.Must(volumes.Delete(ctx, gone, metav1.DeleteOptions{}), "delete the volume")
	_, err := volumes.Patch(ctx, gone, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	t.Must(err, "take the protection off")
	suite.WaitFor(ctx, t, "the claim lost", getClaim(t, "c"), HaveField("Status.Phase", Equal(corev1.ClaimLost)))
	suite.WaitFor(ctx, t, "the reason", reasons(t, "PersistentVolumeClaim", "c"), ContainElement("ClaimLost"))
}

func volumeProtection(ctx context.Context, t *suite.T) {
	name := volume(ctx, t, "v", "1Gi")
	claim(ctx, t, "c", "1Gi", ptr.To(class(t)))
	awaitBound(ctx, t, "c")
	t.Must(t.Client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}), "delete the volume")
	suite.Never(ctx, t, "the bound volume gone", isGone(getVolume(t, name)), BeTrue())
	deleteClaim(ctx, t, "c")
	suite.WaitFor(ctx, t, "the volume gone", isGone(getVolume(t, name)), BeTrue())
}
