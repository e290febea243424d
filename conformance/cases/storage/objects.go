package storage

import (
	"context"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

// class is the name of a class that no other case uses. There need be no StorageClass of it for static binding.
func class(t *suite.T) string { return t.Namespace }

// volume creates a volume that no pod can use, and removes it after the case.
func volume(ctx context.Context, t *suite.T, name, capacity string, changes ...func(*corev1.PersistentVolume)) string {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: t.Namespace + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size(capacity),
			StorageClassName: class(t), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere/" + t.Namespace}},
		},
	}
	for _, change := range changes {
		change(v)
	}
	_, err := t.Client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	t.Must(err, "create volume %s", v.Name)
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	})
	return v.Name
}

// claim creates a claim of class, nil for the default.
func claim(
	ctx context.Context, t *suite.T, name, request string, class *string, changes ...func(*corev1.PersistentVolumeClaim),
) {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class, Resources: corev1.VolumeResourceRequirements{Requests: size(request)},
		},
	}
	for _, change := range changes {
		change(c)
	}
	_, err := t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Create(ctx, c, metav1.CreateOptions{})
	t.Must(err, "create claim %s", name)
}

func deleteClaim(ctx context.Context, t *suite.T, name string) {
	t.Must(t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{}),
		"delete claim %s", name)
}

func getClaim(t *suite.T, name string) func(context.Context) (*corev1.PersistentVolumeClaim, error) {
	return func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return t.Client.CoreV1().PersistentVolumeClaims(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

func getVolume(t *suite.T, name string) func(context.Context) (*corev1.PersistentVolume, error) {
	return func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return t.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	}
}

// isGone turns a read of an object into whether it is gone.
func isGone[T any](get func(context.Context) (T, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := get(ctx)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
}

// awaitBound waits until the claim has its volume.
func awaitBound(ctx context.Context, t *suite.T, name string) *corev1.PersistentVolumeClaim {
	return suite.WaitFor(ctx, t, "claim "+name+" bound", getClaim(t, name),
		HaveField("Status.Phase", Equal(corev1.ClaimBound)))
}

// awaitVolume waits until the volume is in a phase.
func awaitVolume(
	ctx context.Context, t *suite.T, name string, phase corev1.PersistentVolumePhase,
) *corev1.PersistentVolume {
	return suite.WaitFor(ctx, t, "volume "+name+" "+string(phase), getVolume(t, name),
		HaveField("Status.Phase", Equal(phase)))
}

// reasons lists the reasons of an object's events.
func reasons(t *suite.T, kind, name string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name})
		if err != nil {
			return nil, err
		}
		var all []string
		for i := range list.Items {
			all = append(all, list.Items[i].Reason)
		}
		slices.Sort(all)
		return slices.Compact(all), nil
	}
}

// user returns a pod that has the claim at /data.
func user(t *suite.T, name, claim string, args ...string) *corev1.Pod {
	p := t.Pod(name, args...)
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return p
}

// succeed creates the pod and waits until it has succeeded.
func succeed(ctx context.Context, t *suite.T, p *corev1.Pod) {
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "pod "+p.Name+" succeeded", t.GetPod(p.Name),
		HaveField("Status.Phase", Equal(corev1.PodSucceeded)))
}

func deletePod(ctx context.Context, t *suite.T, name string) {
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{}), "delete pod %s", name)
}
