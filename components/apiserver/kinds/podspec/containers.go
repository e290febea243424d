package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eachContainer calls f for all containers of a spec that lies at a path: the init containers first, the ephemeral ones
// last. f may change them.
func eachContainer(s *corev1.PodSpec, path *field.Path, f func(c *corev1.Container, at *field.Path)) {
	for i := range s.InitContainers {
		f(&s.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range s.Containers {
		f(&s.Containers[i], path.Child("containers").Index(i))
	}
	for i := range s.EphemeralContainers {
		f((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon),
			path.Child("ephemeralContainers").Index(i))
	}
}
