package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// PodWarnings warns of what is accepted in a new pod, but hardly meant. Updates of pods get no warnings, as they are
// made by programs. Warnings come in upstream's order.
func PodWarnings(p, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var out []string
	if problems := checks.Label(p.Name); len(problems) > 0 {
		out = append(out, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", problems))
	}
	w := warner{spec: &p.Spec, path: field.NewPath("spec"), annotations: p.Annotations, meta: field.NewPath("metadata")}
	return append(out, w.all()...)
}

// TemplateWarnings does the same for the template of a workload.
func TemplateWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	meta := path.Child("metadata")
	w := warner{spec: &t.Spec, path: path.Child("spec"), annotations: t.Annotations, meta: meta}
	w.perContainer = func(c *corev1.Container) []string {
		annotation, ok := t.Annotations[appArmorKey(c.Name)]
		if !ok || ownAppArmor(c) != nil {
			return nil
		}
		if whole := wholeAppArmor(&t.Spec); whole != nil &&
			apiequality.Semantic.DeepEqual(whole, appArmorProfile(annotation)) {
			return nil
		}
		return []string{appArmorWarning(c.Name, meta)}
	}
	return w.all()
}

// warner collects the warnings about a spec.
type warner struct {
	spec        *corev1.PodSpec
	path        *field.Path
	annotations map[string]string
	meta        *field.Path // of the annotations
	// perContainer tells further warnings about a container's annotations; nil is none.
	perContainer func(*corev1.Container) []string
	out          []string
}

func (w *warner) add(format string, args ...any) { w.out = append(w.out, fmt.Sprintf(format, args...)) }

func (w *warner) all() []string {
	s := w.spec
	w.labels()
	w.annotated()
	w.volumes()
	w.duplicates()
	w.bytes(s.Overhead, corev1.ResourceMemory, w.path, "overhead")
	w.bytes(s.Overhead, corev1.ResourceEphemeralStorage, w.path, "overhead")
	w.seccomp(corev1.SeccompPodAnnotationKey, s.SecurityContext != nil && s.SecurityContext.SeccompProfile != nil)
	eachContainer(s, w.path, w.container)
	w.ports()
	w.portNames()
	if seconds := s.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		w.add("%s: must be >= 0; negative values are invalid and will be treated as 1",
			w.path.Child("terminationGracePeriodSeconds"))
	}
	w.nullSelectors()
	w.addresses()
	return w.out
}

func (w *warner) nullSelector(at *field.Path) {
	w.add("%s: a null labelSelector results in matching no pod", at.Child("labelSelector"))
}

// formerAnnotations have no effect any more.
var formerAnnotations = []struct{ key, text string }{
	{"scheduler.alpha.kubernetes.io/critical-pod",
		`non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

func (w *warner) annotated() {
	for _, a := range formerAnnotations {
		if _, ok := w.annotations[a.key]; ok {
			w.add("%s: %s", w.meta.Child("annotations").Key(a.key), a.text)
		}
	}
}

func (w *warner) seccomp(key string, hasField bool) {
	if _, ok := w.annotations[key]; ok && !hasField {
		w.add(`%s: non-functional in v1.27+; use the "seccompProfile" field instead`,
			w.meta.Child("annotations").Key(key))
	}
}

// duplicates finds items of lists that are there twice.
func (w *warner) duplicates() {
	seen := map[string]bool{}
	for i, a := range w.spec.HostAliases {
		if seen[a.IP] {
			w.add("%s: duplicate ip %q", w.path.Child("hostAliases").Index(i).Child("ip"), a.IP)
		}
		seen[a.IP] = true
	}
	secrets, names := w.path.Child("imagePullSecrets"), map[string]bool{}
	for i, s := range w.spec.ImagePullSecrets {
		if names[s.Name] {
			w.add("%s: duplicate name %q", secrets.Index(i).Child("name"), s.Name)
		}
		names[s.Name] = true
	}
	for i, s := range w.spec.ImagePullSecrets {
		if s.Name == "" {
			w.add("%s: invalid empty name %q", secrets.Index(i).Child("name"), s.Name)
		}
	}
}

func (w *warner) container(c *corev1.Container, at *field.Path) {
	w.seccomp(corev1.SeccompContainerAnnotationKeyPrefix+c.Name, c.SecurityContext != nil &&
		c.SecurityContext.SeccompProfile != nil)
	if w.perContainer != nil {
		w.out = append(w.out, w.perContainer(c)...)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		w.bytes(c.Resources.Limits, name, at, "resources", "limits")
		w.bytes(c.Resources.Requests, name, at, "resources", "requests")
	}
	seen := map[string]bool{}
	for i, e := range c.Env {
		if seen[e.Name] && !extends(&e) {
			w.add("%s: hides previous definition of %q, which may be dropped when using apply",
				at.Child("env").Index(i), e.Name)
		}
		seen[e.Name] = true
	}
}

// extends reports whether a value is made of the one that it hides, and of something else.
func extends(e *corev1.EnvVar) bool {
	former := "$(" + e.Name + ")"
	return e.ValueFrom == nil && e.Value != former && strings.Contains(e.Value, former)
}

// bytes finds an amount of bytes that is no whole number. The list lies below a path.
func (w *warner) bytes(list corev1.ResourceList, name corev1.ResourceName, at *field.Path, below string,
	further ...string) {
	if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
		w.add("%s: fractional byte value %q is invalid, must be an integer",
			at.Child(below, further...).Key(string(name)), q.String())
	}
}

func (w *warner) nullSelectors() {
	a := w.spec.Affinity
	if a == nil {
		return
	}
	at := w.path.Child("affinity")
	check := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range required {
			if required[i].LabelSelector == nil {
				w.nullSelector(at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.nullSelector(at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child(
					"podAffinityTerm"))
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		check(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			at.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		check(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution,
			at.Child("podAntiAffinity"))
	}
}

// addresses finds addresses that can be written in a better way.
func (w *warner) addresses() {
	if c := w.spec.DNSConfig; c != nil {
		for i, ip := range c.Nameservers {
			w.out = append(w.out, utilvalidation.GetWarningsForIP(w.path.Child("dnsConfig", "nameservers").Index(i),
				ip)...)
		}
	}
	for i, a := range w.spec.HostAliases {
		w.out = append(w.out, utilvalidation.GetWarningsForIP(w.path.Child("hostAliases").Index(i).Child("ip"),
			a.IP)...)
	}
}
