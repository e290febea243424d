package podspec

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// fileMode is the mode of files in volumes made of API objects.
const fileMode = int32(0o644)

// DefaultPod sets the defaults of a pod. Some hold for pods only, not for templates, so that templates stay as written.
func DefaultPod(pod *corev1.Pod) {
	dropInitAnnotations(&pod.Annotations)
	spec := &pod.Spec
	for _, cs := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range cs {
			requestsFromLimits(&cs[i].Resources)
			if spec.HostNetwork {
				hostPorts(cs[i].Ports)
			}
		}
	}
	if spec.Resources != nil {
		defaultPodResources(pod)
	}
	setDefault(&spec.EnableServiceLinks, true)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		spec.TerminationGracePeriodSeconds = ptr.To[int64](1) // as old clients mean by less
	}
	Default(spec)
	SyncStatusIPs(&pod.Status)
	roundUpStatus(&pod.Status)
}

// DefaultTemplate sets the defaults of a pod template.
func DefaultTemplate(t *corev1.PodTemplateSpec) {
	dropInitAnnotations(&t.Annotations)
	Default(&t.Spec)
}

// initAnnotations are what init containers were before they had fields; none comes back.
var initAnnotations = []string{"pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses"}

// dropInitAnnotations writes to no map: what was read before has its defaults, and may share its annotations with
// others.
func dropInitAnnotations(annotations *map[string]string) {
	former := func(key, _ string) bool { return slices.Contains(initAnnotations, key) }
	for key, value := range *annotations {
		if former(key, value) {
			*annotations = maps.Clone(*annotations)
			maps.DeleteFunc(*annotations, former)
			return
		}
	}
}

// Default sets the defaults that pods and templates share.
func Default(spec *corev1.PodSpec) {
	setString(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setString(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setString(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefault(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	syncServiceAccount(spec)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&c)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
	RoundUp(spec.Overhead)
	if r := spec.Resources; r != nil {
		RoundUp(r.Limits)
		RoundUp(r.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	setString(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setString(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setString(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.FieldRef != nil {
			setString(&from.FieldRef.APIVersion, "v1")
		}
		if from.FileKeyRef != nil {
			setDefault(&from.FileKeyRef.Optional, false)
		}
	}
	RoundUp(c.Resources.Limits)
	RoundUp(c.Resources.Requests)
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setNumber(&p.TimeoutSeconds, 1)
	setNumber(&p.PeriodSeconds, 10)
	setNumber(&p.SuccessThreshold, 1)
	setNumber(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefault(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *corev1.HTTPGetAction) {
	if a != nil {
		setString(&a.Path, "/")
		setString(&a.Scheme, corev1.URISchemeHTTP)
	}
}

func hostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		setNumber(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

func requestsFromLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

// RoundUp rounds to thousandths: nothing finer is stored.
func RoundUp(list corev1.ResourceList) {
	for name, q := range list {
		if q.RoundUp(resource.Milli) {
			continue // it was exact
		}
		list[name] = q
	}
}

// roundUpStatus does so with what nodes tell of a pod.
func roundUpStatus(s *corev1.PodStatus) {
	RoundUp(s.AllocatedResources)
	roundUpResources(s.Resources)
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			RoundUp(list[i].AllocatedResources)
			roundUpResources(list[i].Resources)
		}
	}
}

func roundUpResources(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUp(r.Limits)
		RoundUp(r.Requests)
	}
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func setString[T ~string](p *T, value T) {
	if *p == "" {
		*p = value
	}
}

func setNumber[T ~int32 | ~int64](p *T, value T) {
	if *p == 0 {
		*p = value
	}
}
