package pods

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// onlyImage is an engine that has one image and can pull none.
type onlyImage struct{ ref string }

func (o onlyImage) Image(_ context.Context, ref string) (runtime.Image, error) {
	if ref == o.ref {
		return runtime.Image{ID: "sha256:1"}, nil
	}
	return runtime.Image{}, runtime.ErrNotFound
}

func (onlyImage) Images(context.Context) ([]runtime.Image, error) { return nil, nil }

func (onlyImage) RemoveImage(context.Context, string) error { return errors.ErrUnsupported }

func (onlyImage) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	return runtime.Filesystem{}, errors.ErrUnsupported
}

func (onlyImage) Pull(context.Context, string, runtime.Credential) (runtime.Image, error) {
	return runtime.Image{}, errors.New("no registry")
}

// The images of volumes fail a container as its own image does; the events are the pod's.
func TestImageVolumesFailTheirContainer(t *testing.T) {
	for name, test := range map[string]struct {
		ref           string
		policy        v1.PullPolicy
		reason, event string
	}{
		"never":    {"other:1", v1.PullNever, "ErrImageNeverPull", "Warning ErrImageNeverPull"},
		"pulled":   {"other:1", v1.PullAlways, "ErrImagePull", "Normal Pulling"},
		"mistaken": {"A", v1.PullIfNotPresent, "InvalidImageName", "Warning InspectFailed"},
		"broken":   {"there:1", v1.PullNever, "CreateContainerError", "Normal Pulled"},
	} {
		recorder := record.NewFakeRecorder(10)
		pod := simplePod("u")
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			Image: &v1.ImageVolumeSource{Reference: test.ref, PullPolicy: test.policy}}}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		s := &starter{pod: pod, operations: &operations{uid: "u", Config: &Config{
			Recorder: recorder, Clock: clock.RealClock{},
			Images: &images.Puller{Images: onlyImage{"there:1"}, Clock: clock.RealClock{},
				Limits: plan.Limits{Initial: time.Second, Max: time.Minute}},
			Volumes: &volumes.Manager{Root: t.TempDir(), SaveImage: func(context.Context, string) (io.ReadCloser, error) {
				return nil, errors.New("it can't be saved")
			}},
		}}}
		_, reason, err := s.withImages(t.Context(), &pod.Spec.Containers[0])
		if reason != test.reason || err == nil {
			t.Errorf("%s: reason %q, %v", name, reason, err)
		}
		if event := <-recorder.Events; !strings.HasPrefix(event, test.event) {
			t.Errorf("%s: event %q", name, event)
		}
		if want := map[bool]string{true: test.ref, false: "image:1"}[name != "broken"]; failedImage(
			&pod.Spec.Containers[0], err) != want {
			t.Errorf("%s: it waits for another image than %s", name, want)
		}
		if mountsImage(pod, &v1.Container{}) || !mountsImage(pod, &pod.Spec.Containers[0]) {
			t.Errorf("%s: which containers mount the image is wrong", name)
		}
	}
}

func TestMountDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 500 * time.Millisecond, 1: time.Second, 4: 8 * time.Second,
		5: retryDelay, 1000: retryDelay} {
		if got := mountDelay(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
