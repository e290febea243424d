package storage

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const device = "/dev/xvda"

// blockClaim claims a device of a class.
func blockClaim(ctx context.Context, t *suite.T, name, capacity, class string) {
	_, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			VolumeMode: ptr.To(corev1.PersistentVolumeBlock),
			Resources:  corev1.VolumeResourceRequirements{Requests: size(capacity)},
		}}, metav1.CreateOptions{})
	t.Must(err, "create claim %s", name)
}

// blockUser returns a pod that has the device of a claim.
func blockUser(t *suite.T, name, claim string, args ...string) *corev1.Pod {
	p := user(t, name, claim, args...)
	main := &p.Spec.Containers[0]
	main.VolumeDevices = []corev1.VolumeDevice{{Name: main.VolumeMounts[0].Name, DevicePath: device}}
	main.VolumeMounts = nil
	return p
}

func csiBlock(ctx context.Context, t *suite.T) {
	class := csiClass(ctx, t, anyClass)
	blockClaim(ctx, t, "c", "1Mi", class.Class.Name)
	t.CreatePod(ctx, blockUser(t, "writer", "c", "stat", device, "then", "sizes", device, "then",
		"write", device, "kept", "then", "serve"))
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("writer"), HaveField("Status.Phase", Equal(corev1.PodRunning)))
	suite.WaitFor(ctx, t, "what the device is", logs(t, "writer"),
		MatchRegexp(`^`+device+` other \d+ \d+ \d+ \d+\n\d{7,}\n`))
	deletePod(ctx, t, "writer")
	suite.WaitFor(ctx, t, "the first pod gone", isGone(t.GetPod("writer")), BeTrue())
	succeed(ctx, t, blockUser(t, "reader", "c", "head", "4", device))
	suite.WaitFor(ctx, t, "the data of the first pod", logs(t, "reader"), Equal("kept"))
}

func csiBlockExpansion(ctx context.Context, t *suite.T) {
	class := csiClass(ctx, t, suite.CSIClass.Expandable)
	blockClaim(ctx, t, "c", "1Mi", class.Class.Name)
	t.CreatePod(ctx, blockUser(t, "p", "c", "serve"))
	suite.WaitFor(ctx, t, "the pod running", t.GetPod("p"), HaveField("Status.Phase", Equal(corev1.PodRunning)))
	bytes := func(ctx context.Context) (int64, error) {
		out, _, err := t.Exec(ctx, "p", "", "testimage", "sizes", device)
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	}
	before, err := bytes(ctx)
	t.Must(err, "read the size of the device")
	const more = 4 << 20
	_, err = t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Patch(ctx, "c", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, before+more), metav1.PatchOptions{})
	t.Must(err, "ask for more")
	t.Eventually(bytes).WithContext(ctx).WithTimeout(expansionTimeout).WithPolling(time.Second).Should(
		BeNumerically(">=", before+more))
	p, err := t.GetPod("p")(ctx)
	t.Must(err, "read the pod")
	t.Expect(p.Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())))
}
