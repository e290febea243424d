package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ports finds definitions of one port of the pod that say the same twice, or that can't hold both.
func (w *warner) ports() {
	type definition struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	type key struct {
		number   int32
		protocol corev1.Protocol
	}
	before := map[key][]definition{}
	eachContainer(w.spec, w.path, func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			d := definition{at.Child("ports").Index(i), p}
			if p.HostIP != "" && p.HostPort == 0 {
				w.add("%s: hostIP set without hostPort: %+v", d.at, p)
			}
			k := key{p.ContainerPort, p.Protocol}
			for _, other := range before[k] {
				if how := collision(p, other.port); how != "" {
					w.add("%s: %s port definition with %s", d.at, how, other.at)
				}
			}
			before[k] = append(before[k], d)
		}
	})
}

func collision(a, b corev1.ContainerPort) string {
	switch {
	case a.HostPort == b.HostPort && a.HostIP == b.HostIP:
		return "duplicate"
	case a.HostPort == 0 || b.HostPort == 0:
		return "overlapping"
	case a.HostPort == b.HostPort && (a.HostIP == "" || b.HostIP == ""):
		return "dangerously ambiguous"
	}
	return ""
}

// portNames finds names that containers of the pod share: a reference to such a port gets the first.
func (w *warner) portNames() {
	first := map[string]*field.Path{}
	eachContainer(w.spec, w.path, func(c *corev1.Container, at *field.Path) {
		for i, p := range c.Ports {
			if p.Name == "" {
				continue
			}
			d := at.Child("ports").Index(i)
			other, taken := first[p.Name]
			if !taken {
				first[p.Name] = d
				continue
			}
			w.add("%s: duplicate port name %q with %s, services and probes that select ports by name will use %s", d,
				p.Name, other, other)
		}
	})
}
