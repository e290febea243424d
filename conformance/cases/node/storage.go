package node

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const persistentDocs = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"

// storageCases are about volumes whose content is not the API's.
func storageCases() []suite.Case {
	all := []suite.Case{
		{ID: "node/image-volume", Run: imageVolume,
			Reference:   "https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/",
			Requirement: "An image volume MUST show the files of its image, whole and by subPath, and not be writable."},
		{ID: "node/image-volume-missing", Run: imageVolumeMissing,
			Reference: "https://kubernetes.io/docs/concepts/storage/volumes/#image",
			Requirement: "A container that mounts a volume of an image that is not there and may not be pulled MUST wait with " +
				"ErrImageNeverPull."},
		{ID: "node/env-file", Run: envFile,
			Reference: "https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/",
			Requirement: "A variable MUST take its value from a file of a volume that an init container wrote, and be absent " +
				"where it is optional and missing."},
		{ID: "node/claimed-volume", Run: claimedVolume, Reference: persistentDocs,
			Needs: []suite.Feature{suite.HasControllers},
			Requirement: "A pod MUST find what another one wrote into the volume that their claim is bound to, and not write " +
				"to it where it claims it read-only."},
		{ID: "node/claim-missing", Run: claimMissing, Reference: persistentDocs + "#claims-as-volumes",
			Requirement: "A pod on a node whose claim does not exist MUST wait and say why."},
	}
	for i := range all {
		all[i].Since = "0.3"
	}
	return all
}

// program is where the test image has its program.
const program = "/usr/local/bin/testimage"

func mount(p *corev1.Pod, name string, source corev1.VolumeSource, mounts ...corev1.VolumeMount) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	for _, m := range mounts {
		m.Name = name
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, m)
	}
}

func imageVolume(ctx context.Context, t *suite.T) {
	source := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: t.Image,
		PullPolicy: corev1.PullIfNotPresent}}
	p := t.Pod("image", "stat", "/image"+program, "/part/testimage")
	mount(p, "image", source, corev1.VolumeMount{MountPath: "/image"},
		corev1.VolumeMount{MountPath: "/part", SubPath: "usr/local/bin"})
	t.Expect(outputOf(ctx, t, p)).To(HaveExactElements(HavePrefix("/image"+program+" file "),
		HavePrefix("/part/testimage file ")))
	p = t.Pod("writes", "write", "/image/new", "text")
	mount(p, "image", source, corev1.VolumeMount{MountPath: "/image"})
	t.CreatePod(ctx, p)
	ended(ctx, t, "writes", corev1.PodFailed)
}

func imageVolumeMissing(ctx context.Context, t *suite.T) {
	p := t.Pod("missing", "stat", "/image")
	mount(p, "image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
		Reference: "quintet.invalid/none:1", PullPolicy: corev1.PullNever}}, corev1.VolumeMount{MountPath: "/image"})
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "the container waits with ErrImageNeverPull", t.GetPod("missing"),
		HaveField("Status.ContainerStatuses", ContainElement(HaveField("State.Waiting",
			HaveValue(HaveField("Reason", "ErrImageNeverPull"))))))
}

func envFile(ctx context.Context, t *suite.T) {
	p := t.Pod("env-file", "env")
	p.Spec.InitContainers = []corev1.Container{{Name: "writer", Image: t.Image,
		Args: []string{"write", "/shared/env", "# a comment\n\nA='one two'\n"}}}
	shared(p, "/shared")
	from := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{
			VolumeName: "shared", Path: "env", Key: key, Optional: ptr.To(true)}}
	}
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "QUOTED", ValueFrom: from("A")}, {Name: "ABSENT", ValueFrom: from("B")},
	}
	t.Expect(outputOf(ctx, t, p)).To(And(ContainElement("QUOTED=one two"), Not(ContainElement(HavePrefix("ABSENT=")))))
}

// claim makes a persistent volume in a directory of the nodes, and a claim that is for it alone.
func claim(ctx context.Context, t *suite.T) {
	name, size := t.Namespace, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volumes := t.Client.CoreV1().PersistentVolumes()
	_, err := volumes.Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: t.Namespace, Name: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/tmp/" + name, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}},
		}}, metav1.CreateOptions{})
	t.Must(err, "create the persistent volume")
	t.Cleanup(func(ctx context.Context) { _ = volumes.Delete(ctx, name, metav1.DeleteOptions{}) })
	_, err = t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes,
			StorageClassName: ptr.To(""), VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	t.Must(err, "create the claim")
}

func claimedVolume(ctx context.Context, t *suite.T) {
	claim(ctx, t)
	node := ""
	for _, step := range []struct {
		name     string
		readOnly bool
		phase    corev1.PodPhase
		args     []string
	}{
		{"writes", false, corev1.PodSucceeded, []string{"write", "/data/file", "kept"}},
		{"reads", true, corev1.PodSucceeded, []string{"cat", "/data/file"}},
		{"may-not-write", true, corev1.PodFailed, []string{"write", "/data/file", "lost"}},
	} {
		p := t.Pod(step.name, step.args...)
		p.Spec.NodeName = node // the directory is that of one node
		mount(p, "data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: "claim", ReadOnly: step.readOnly}}, corev1.VolumeMount{MountPath: "/data"})
		t.CreatePod(ctx, p)
		node = ended(ctx, t, step.name, step.phase).Spec.NodeName
	}
	t.Expect(log(ctx, t, "reads", &corev1.PodLogOptions{})).To(Equal("kept"))
	p := t.Pod("removes", "remove", "/node/"+t.Namespace+"/file", "/node/"+t.Namespace)
	p.Spec.NodeName = node
	mount(p, "tmp", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		corev1.VolumeMount{MountPath: "/node"})
	t.CreatePod(ctx, p)
	ended(ctx, t, "removes", corev1.PodSucceeded)
}

func claimMissing(ctx context.Context, t *suite.T) {
	first := t.CreatePod(ctx, t.Pod("first", "env"))
	first = ended(ctx, t, first.Name, corev1.PodSucceeded)
	p := t.Pod("waits", "env")
	p.Spec.NodeName = first.Spec.NodeName // no scheduler waits for the claim
	mount(p, "data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
		ClaimName: "none"}}, corev1.VolumeMount{MountPath: "/data"})
	t.CreatePod(ctx, p)
	events := func(ctx context.Context) ([]corev1.Event, error) {
		list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=waits,reason=FailedMount"})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	found := suite.WaitFor(ctx, t, "an event that says why", events, Not(BeEmpty()))
	t.Expect(found[0].Message).To(ContainSubstring(fmt.Sprintf("error processing PVC %s/none", t.Namespace)))
}
