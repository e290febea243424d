package storage

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// csiClass returns a class whose volumes a CSI driver makes, and that driver.
func csiClass(ctx context.Context, t *suite.T, fits func(suite.CSIClass) bool) suite.CSIClass {
	found, err := suite.CSIClasses(ctx, t.Client)
	t.Must(err, "list the classes of CSI drivers")
	i := slices.IndexFunc(found, fits)
	t.Expect(i).To(BeNumerically(">=", 0), "a class of a CSI driver")
	return found[i]
}

func anyClass(suite.CSIClass) bool { return true }

// fsGroup is that of the pods' volumes.
const fsGroup = 4711

func csiVolume(ctx context.Context, t *suite.T) {
	class := csiClass(ctx, t, anyClass)
	claim(ctx, t, "c", "1Mi", &class.Class.Name)
	writer := user(t, "writer", "c", "write", "/data/file", "kept", "then", "stat", "/data/file", "then", "serve")
	writer.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](fsGroup)}
	t.CreatePod(ctx, writer)
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("writer"), HaveField("Status.Phase", Equal(corev1.PodRunning)))
	c := awaitBound(ctx, t, "c")
	v, err := getVolume(t, c.Spec.VolumeName)(ctx)
	t.Must(err, "read the volume")
	t.Expect(v.Spec.CSI).NotTo(BeNil())
	t.Expect(v.Spec.CSI.Driver).To(Equal(class.Driver.Name))
	if attach := class.Driver.Spec.AttachRequired; attach == nil || *attach {
		suite.WaitFor(ctx, t, "the volume attached", attachments(t, v.Name), ContainElement(BeTrue()))
	}
	if policy := class.Driver.Spec.FSGroupPolicy; policy != nil && *policy == storagev1.FileFSGroupPolicy {
		suite.WaitFor(ctx, t, "the group of the file", logs(t, "writer"), MatchRegexp(`/data/file file \d+ \d+ 4711 `))
	}
	deletePod(ctx, t, "writer")
	suite.WaitFor(ctx, t, "the first pod gone", isGone(t.GetPod("writer")), BeTrue())
	suite.WaitFor(ctx, t, "the volume detached", attachments(t, v.Name), BeEmpty())
	succeed(ctx, t, user(t, "reader", "c", "cat", "/data/file"))
	suite.WaitFor(ctx, t, "the data of the first pod", logs(t, "reader"), Equal("kept"))
	deletePod(ctx, t, "reader")
	deleteClaim(ctx, t, "c")
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		suite.WaitFor(ctx, t, "the volume gone", isGone(getVolume(t, v.Name)), BeTrue())
	}
}

// attachments tells of each attachment of a volume whether it is done.
func attachments(t *suite.T, volume string) func(context.Context) ([]bool, error) {
	return func(ctx context.Context) ([]bool, error) {
		list, err := t.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		found := []bool{}
		for i := range list.Items {
			if name := list.Items[i].Spec.Source.PersistentVolumeName; name != nil && *name == volume {
				found = append(found, list.Items[i].Status.Attached)
			}
		}
		return found, nil
	}
}

func logs(t *suite.T, pod string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		return string(text), err
	}
}

func csiInline(ctx context.Context, t *suite.T) {
	class := csiClass(ctx, t, suite.CSIClass.Inline)
	inline := func(name string, args ...string) *corev1.Pod {
		p := user(t, name, "unused", args...)
		p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: class.Driver.Name}}
		return p
	}
	succeed(ctx, t, inline("first", "write", "/data/file", "text", "then", "cat", "/data/file"))
	suite.WaitFor(ctx, t, "what the pod wrote", logs(t, "first"), Equal("text"))
	succeed(ctx, t, inline("second", "ls", "/data"))
	suite.WaitFor(ctx, t, "an empty volume for another pod", logs(t, "second"), Not(ContainSubstring("file")))
	claims, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).List(ctx, metav1.ListOptions{})
	t.Must(err, "list claims")
	t.Expect(claims.Items).To(BeEmpty())
}

// expansionTimeout is for kubelets that see a larger volume when they look at the pod again, each minute or two.
const expansionTimeout = 3 * time.Minute

func csiExpansion(ctx context.Context, t *suite.T) {
	class := csiClass(ctx, t, suite.CSIClass.Expandable)
	claim(ctx, t, "c", "1Gi", &class.Class.Name)
	t.CreatePod(ctx, user(t, "p", "c", "serve"))
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("p"), HaveField("Status.Phase", Equal(corev1.PodRunning)))
	awaitBound(ctx, t, "c")
	_, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Patch(ctx, "c", types.MergePatchType,
		[]byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
	t.Must(err, "ask for more")
	wanted := resource.MustParse("2Gi")
	larger := Satisfy(func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Capacity.Storage().Cmp(wanted) >= 0 })
	t.Eventually(getClaim(t, "c")).WithContext(ctx).WithTimeout(expansionTimeout).WithPolling(time.Second).Should(larger)
	c, err := getClaim(t, "c")(ctx)
	t.Must(err, "read the claim")
	t.Expect(c.Status.Conditions).To(BeEmpty(), "nothing is left to do")
	v, err := getVolume(t, c.Spec.VolumeName)(ctx)
	t.Must(err, "read the volume")
	t.Expect(v.Spec.Capacity.Storage().Cmp(wanted)).To(BeNumerically(">=", 0))
	p, err := t.GetPod("p")(ctx)
	t.Must(err, "read the pod")
	t.Expect(p.Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())))
}
