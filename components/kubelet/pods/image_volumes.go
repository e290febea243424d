package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// mountsImage tells a container that mounts a volume of the pod that is an image.
func mountsImage(pod *v1.Pod, c *v1.Container) bool { return len(imageVolumes(pod, c)) > 0 }

// imageVolumes are the volumes of the pod that are images and that the container mounts.
func imageVolumes(pod *v1.Pod, c *v1.Container) []*v1.Volume {
	var found []*v1.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Image == nil {
			continue
		}
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name {
				found = append(found, v)
				break
			}
		}
	}
	return found
}

// withImages returns the pod's volumes with the images that a container mounts pulled and mounted. Its errors are the
// container's: those of the pull policy, or the failure to make the volume; the reason is the one a status reports.
func (s *starter) withImages(ctx context.Context, c *v1.Container) (map[string]volumes.Mounted, string, error) {
	wanted := imageVolumes(s.pod, c)
	if len(wanted) == 0 {
		return s.volumes, "", nil
	}
	all := maps.Clone(s.volumes)
	for _, v := range wanted {
		image, err := s.Images.Ensure(ctx, s.pod, pulled(v), func(eventType, reason, format string, args ...any) {
			s.record(s.pod, eventType, reason, fmt.Sprintf(format, args...))
		})
		if err != nil {
			return nil, imageReason(err), &imageVolumeError{v.Image.Reference, err}
		}
		where, err := s.Volumes.MountImage(ctx, &volumes.Source{Pod: s.pod, Volume: v}, image.ID)
		if err != nil {
			return nil, "CreateContainerError", fmt.Errorf("%w: volume %q: %w", volumes.ErrImageVolume, v.Name, err)
		}
		all[v.Name] = where
	}
	return all, "", nil
}

// pulled is a container that asks for the image of a volume.
func pulled(v *v1.Volume) *v1.Container {
	return &v1.Container{Name: v.Name, Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy}
}

// imageVolumeError tells which image could not be pulled.
type imageVolumeError struct {
	image string
	err   error
}

func (e *imageVolumeError) Error() string { return e.err.Error() }
func (e *imageVolumeError) Unwrap() error { return e.err }

// failedImage is the image that an error of a start is about.
func failedImage(c *v1.Container, err error) string {
	var volume *imageVolumeError
	if errors.As(err, &volume) {
		return volume.image
	}
	return c.Image
}
