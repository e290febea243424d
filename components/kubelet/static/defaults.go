package static

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// fileMode is the mode of files in volumes made of a pod's own fields.
const fileMode = int32(0o644)

// setDefaults sets what the API server sets of pods that it is given.
func setDefaults(pod *v1.Pod) {
	spec := &pod.Spec
	orElse(&spec.RestartPolicy, v1.RestartPolicyAlways)
	orElse(&spec.DNSPolicy, v1.DNSClusterFirst)
	orElse(&spec.SchedulerName, v1.DefaultSchedulerName)
	present(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	present(&spec.EnableServiceLinks, true)
	present(&spec.SecurityContext, v1.PodSecurityContext{})
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			defaultContainer(&list[i], spec.HostNetwork)
		}
	}
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func present[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	orElse(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	orElse(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	orElse(&c.ImagePullPolicy, pullPolicy(c.Image))
	for i := range c.Ports {
		orElse(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			orElse(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			orElse(&from.FieldRef.APIVersion, "v1")
		}
	}
	for name, limit := range c.Resources.Limits {
		if c.Resources.Requests == nil {
			c.Resources.Requests = v1.ResourceList{}
		}
		if _, given := c.Resources.Requests[name]; !given {
			c.Resources.Requests[name] = limit.DeepCopy()
		}
	}
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
	if c.Lifecycle != nil {
		for _, hook := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				defaultHTTPGet(hook.HTTPGet)
			}
		}
	}
}

// pullPolicy is Always for images whose tag is "latest" or missing
// (https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting).
func pullPolicy(image string) v1.PullPolicy {
	if strings.Contains(image, "@") {
		return v1.PullIfNotPresent
	}
	name := image[strings.LastIndex(image, "/")+1:]
	if _, tag, tagged := strings.Cut(name, ":"); tagged && tag != "latest" {
		return v1.PullIfNotPresent
	}
	return v1.PullAlways
}

func defaultProbe(p *v1.Probe) {
	orElse(&p.TimeoutSeconds, 1)
	orElse(&p.PeriodSeconds, 10)
	orElse(&p.SuccessThreshold, 1)
	orElse(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		present(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(get *v1.HTTPGetAction) {
	if get != nil {
		orElse(&get.Path, "/")
		orElse(&get.Scheme, v1.URISchemeHTTP)
	}
}

func defaultVolume(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		present(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.DownwardAPI != nil {
		present(&v.DownwardAPI.DefaultMode, fileMode)
		defaultItems(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		present(&v.Projected.DefaultMode, fileMode)
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].DownwardAPI; s != nil {
				defaultItems(s.Items)
			}
		}
	}
	if v.Image != nil {
		orElse(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultItems(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			orElse(&ref.APIVersion, "v1")
		}
	}
}
