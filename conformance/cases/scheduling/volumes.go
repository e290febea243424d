package scheduling

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// addClass makes a class whose claims wait for their first pod, and returns its name.
func addClass(ctx context.Context, t *suite.T, provisioner string) string {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
	_, err := t.Client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	t.Must(err, "create the storage class")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
	})
	return class.Name
}

// addVolume makes a volume of 1 GiB that is usable on one node, or on all for "". With a claim, it is reserved for it.
func addVolume(ctx context.Context, t *suite.T, class, node, claim string,
	modes ...corev1.PersistentVolumeAccessMode) string {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: t.Namespace + "-pv"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/conformance"}},
		},
	}
	if node != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	}
	if claim != "" {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: t.Namespace, Name: claim}
	}
	volumes := t.Client.CoreV1().PersistentVolumes()
	t.Cleanup(func(ctx context.Context) { _ = volumes.Delete(ctx, pv.Name, metav1.DeleteOptions{}) })
	_, err := volumes.Create(ctx, pv, metav1.CreateOptions{})
	t.Must(err, "create the volume")
	return pv.Name
}

// addClaim makes a claim of 1 GiB; with a volume, it names that.
func addClaim(ctx context.Context, t *suite.T, name, class, volume string, modes ...corev1.PersistentVolumeAccessMode) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeName: volume, AccessModes: modes,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	_, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	t.Must(err, "create claim %s", name)
}

// claimBound waits until the volume controller has bound a claim.
func claimBound(ctx context.Context, t *suite.T, claim string) {
	suite.WaitFor(ctx, t, "claim "+claim+" bound", func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Get(ctx, claim, metav1.GetOptions{})
	}, HaveField("Status.Phase", corev1.ClaimBound))
}

func using(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

func volumeMissing(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	t.CreatePod(ctx, pod(t, "early", using("data")))
	refusedFor(ctx, t, "early", `persistentvolumeclaim "data" not found`)
	class := addClass(ctx, t, "kubernetes.io/no-provisioner")
	volume := addVolume(ctx, t, class, "", "data", corev1.ReadWriteOnce)
	addClaim(ctx, t, "data", class, volume, corev1.ReadWriteOnce)
	claimBound(ctx, t, "data")
	t.Expect(bound(ctx, t, "early")).To(Equal(node))
}

func volumeAffinity(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	b := addNode(ctx, t, "b", nil)
	class := addClass(ctx, t, "kubernetes.io/no-provisioner")
	volume := addVolume(ctx, t, class, b, "data", corev1.ReadWriteOnce)
	addClaim(ctx, t, "data", class, volume, corev1.ReadWriteOnce)
	claimBound(ctx, t, "data")
	t.Expect(place(ctx, t, pod(t, "there", using("data")))).To(Equal(b))
	t.CreatePod(ctx, pod(t, "elsewhere", func(p *corev1.Pod) {
		using("data")(p)
		p.Spec.NodeSelector["name"] = "a"
	}))
	refusedFor(ctx, t, "elsewhere", "node(s) didn't match PersistentVolume's node affinity")
}

func volumeWait(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	b := addNode(ctx, t, "b", nil)
	class := addClass(ctx, t, "kubernetes.io/no-provisioner")
	addClaim(ctx, t, "data", class, "", corev1.ReadWriteOnce)
	t.CreatePod(ctx, pod(t, "consumer", using("data")))
	refusedFor(ctx, t, "consumer", "2 node(s) didn't find available persistent volumes to bind")
	volume := addVolume(ctx, t, class, b, "", corev1.ReadWriteOnce)
	read := func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return t.Client.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
	}
	found := suite.WaitFor(ctx, t, "the volume bound to the claim", read, HaveField("Spec.ClaimRef", Not(BeNil())))
	t.Expect(found.Spec.ClaimRef.Name).To(Equal("data"))
	claimBound(ctx, t, "data")
	t.Expect(bound(ctx, t, "consumer")).To(Equal(b))
}

func volumeProvision(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "only", nil)
	class := addClass(ctx, t, "conformance.quintet.dev/none")
	addClaim(ctx, t, "data", class, "", corev1.ReadWriteOnce)
	t.CreatePod(ctx, pod(t, "consumer", using("data")))
	suite.WaitFor(ctx, t, "the claim with a selected node",
		func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
			return t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Get(ctx, "data", metav1.GetOptions{})
		}, HaveField("Annotations", HaveKeyWithValue("volume.kubernetes.io/selected-node", node)))
	suite.Never(ctx, t, "the pod is bound before its claim", t.GetPod("consumer"),
		HaveField("Spec.NodeName", Not(BeEmpty())))
	addVolume(ctx, t, class, node, "data", corev1.ReadWriteOnce)
	claimBound(ctx, t, "data")
	t.Expect(bound(ctx, t, "consumer")).To(Equal(node))
}

func volumeOncePod(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "a", nil)
	addNode(ctx, t, "b", nil)
	class := addClass(ctx, t, "kubernetes.io/no-provisioner")
	volume := addVolume(ctx, t, class, "", "data", corev1.ReadWriteOncePod)
	addClaim(ctx, t, "data", class, volume, corev1.ReadWriteOncePod)
	claimBound(ctx, t, "data")
	place(ctx, t, pod(t, "first", using("data")))
	t.CreatePod(ctx, pod(t, "second", using("data")))
	refusedFor(ctx, t, "second",
		"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")
	remove(ctx, t, "first")
	bound(ctx, t, "second")
}
