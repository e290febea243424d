package show

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Containers lists names and images.
func Containers(cs []corev1.Container) (names, images string) {
	n, i := make([]string, len(cs)), make([]string, len(cs))
	for k := range cs {
		n[k], i[k] = cs[k].Name, cs[k].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
