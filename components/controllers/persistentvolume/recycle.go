package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// Recycling is how volumes of one kind are emptied
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#recycle).
type Recycling struct {
	Template *v1.Pod // nil for the default; its first volume is replaced by the one to empty
	// Timeout is what the pod gets at least, PerGiB what it gets for each GiB of the volume.
	Timeout, PerGiB time.Duration
}

// recyclerPrefix begins the names of pods that empty volumes; the volume's name follows.
const recyclerPrefix = "recycler-for-"

// ReadTemplate reads a recycler pod from a file.
func ReadTemplate(file string) (*v1.Pod, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict(data, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(pod.Spec.Volumes) == 0 {
		return nil, fmt.Errorf("%s: does not contain any volume(s)", file)
	}
	return pod, nil
}

// recycledBy returns the volume that a pod empties.
func recycledBy(pod *v1.Pod) (string, bool) {
	return strings.CutPrefix(pod.Name, recyclerPrefix)
}

func (r Recycling) namespace() string {
	if r.Template != nil && r.Template.Namespace != "" {
		return r.Template.Namespace
	}
	return metav1.NamespaceDefault
}

// pod returns the pod that empties volume.
func (r Recycling) pod(volume *v1.PersistentVolume) *v1.Pod {
	pod := defaultRecycler()
	if r.Template != nil {
		pod = r.Template.DeepCopy()
	}
	pod.Name, pod.GenerateName, pod.Namespace = recyclerPrefix+volume.Name, "", r.namespace()
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{HostPath: volume.Spec.HostPath, NFS: volume.Spec.NFS}
	if pod.Spec.RestartPolicy == "" || pod.Spec.RestartPolicy == v1.RestartPolicyAlways {
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
	}
	capacity := volume.Spec.Capacity[v1.ResourceStorage]
	timeout := time.Duration(capacity.Value()/(1<<30)) * r.PerGiB
	pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(max(timeout, r.Timeout) / time.Second))
	return pod
}

func defaultRecycler() *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever,
		Volumes:       []v1.Volume{{Name: "vol"}},
		Containers: []v1.Container{{
			Name: "pv-recycler", Image: "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
			Command: []string{"/bin/sh"},
			Args: []string{"-c", `test -e /scrub && find /scrub -mindepth 1 -delete && ` +
				`test -z "$(ls -A /scrub)" || exit 1`},
			VolumeMounts: []v1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
		}},
	}}
}

// recycle has a pod empty the volume, and makes it available again once that succeeded. The pod is the only state: a
// controller that was restarted goes on with it.
func (c *Controller) recycle(ctx context.Context, volume *v1.PersistentVolume) error {
	by := c.options.HostPath
	if volume.Spec.NFS != nil {
		by = c.options.NFS
	}
	pod, err := c.pods.Pods(by.namespace()).Get(recyclerPrefix + volume.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.startRecycler(ctx, volume, by)
	case err != nil:
		return err
	case !pods.Ended(pod):
		return nil
	}
	if pod.DeletionTimestamp == nil {
		if err := runner.IgnoreGone(c.env.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})); err != nil {
			return err
		}
	}
	if pod.Status.Phase == v1.PodSucceeded {
		c.record(volume, normal("VolumeRecycled", "Volume recycled"))
		return c.unbind(ctx, volume)
	}
	why := pod.Status.Message
	if why == "" {
		why = "pod failed, pod.Status.Message unknown"
	}
	return c.recycleFailed(ctx, volume, errors.New(why))
}

func (c *Controller) startRecycler(ctx context.Context, volume *v1.PersistentVolume, by Recycling) error {
	all, err := c.pods.Pods(volume.Spec.ClaimRef.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	if users := runningUsers(all, volume.Spec.ClaimRef.Name); len(users) > 0 {
		// A claim of the same name that exists has another volume, and the pods are its.
		if _, err := c.claims.PersistentVolumeClaims(volume.Spec.ClaimRef.Namespace).Get(
			volume.Spec.ClaimRef.Name); apierrors.IsNotFound(err) {
			c.record(volume, normal("VolumeFailedRecycle", "Volume is used by pods: "+strings.Join(users, ",")))
			return nil
		}
	}
	_, err = c.env.Client.CoreV1().Pods(by.namespace()).Create(ctx, by.pod(volume), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return c.recycleFailed(ctx, volume, fmt.Errorf("unexpected error creating recycler pod:  %w", err))
	}
	return nil
}

func runningUsers(all []*v1.Pod, claim string) []string {
	var names []string
	for _, pod := range all {
		if !pods.Ended(pod) && usesClaim(pod, claim) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

// recycleFailed leaves the volume Failed; the next period tries again.
func (c *Controller) recycleFailed(ctx context.Context, volume *v1.PersistentVolume, why error) error {
	message := fmt.Sprintf("Recycle failed: %s", why)
	if volume.Status.Phase == v1.VolumeFailed {
		return nil
	}
	volume, err := c.writeVolumeStatus(ctx, volume, v1.VolumeFailed, message)
	if err != nil {
		return err
	}
	c.record(volume, warning("VolumeFailedRecycle", message))
	return nil
}
