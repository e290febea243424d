package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodWarnings tells of what is accepted in a new pod, but hardly meant. Updates of pods are the work of programs, which
// nobody reads warnings of.
func PodWarnings(p, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	var out []string
	if problems := utilvalidation.IsDNS1123Label(p.Name); p.Name != "" && len(problems) > 0 {
		out = append(out, fmt.Sprintf(
			"metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", problems))
	}
	return append(out, specWarnings(&p.Spec, field.NewPath("spec"))...)
}

// TemplateWarnings does the same for the template of a workload.
func TemplateWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	return specWarnings(&t.Spec, path.Child("spec"))
}

// renamedLabels are labels of nodes that have other names now.
var renamedLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	corev1.LabelFailureDomainBetaRegion: `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	corev1.LabelInstanceType:            `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"beta.kubernetes.io/arch":           `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":             `deprecated since v1.14; use "kubernetes.io/os" instead`,
}

func specWarnings(s *corev1.PodSpec, path *field.Path) []string {
	var out []string
	for key := range s.NodeSelector {
		if text := renamedLabels[key]; text != "" {
			out = append(out, fmt.Sprintf("%s: %s", path.Child("nodeSelector").Key(key), text))
		}
	}
	for i, secret := range s.ImagePullSecrets {
		if secret.Name == "" {
			out = append(out, fmt.Sprintf("%s: invalid empty name %q", path.Child("imagePullSecrets").Index(i).Child("name"), ""))
		}
	}
	if seconds := s.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		out = append(out, fmt.Sprintf("%s: must be >= 0; negative values are invalid and will be treated as 1",
			path.Child("terminationGracePeriodSeconds")))
	}
	for i := range s.InitContainers {
		out = append(out, containerWarnings(&s.InitContainers[i], path.Child("initContainers").Index(i))...)
	}
	for i := range s.Containers {
		out = append(out, containerWarnings(&s.Containers[i], path.Child("containers").Index(i))...)
	}
	return out
}

func containerWarnings(c *corev1.Container, at *field.Path) []string {
	out := append(fractions(c.Resources.Limits, at.Child("resources", "limits")), fractions(c.Resources.Requests, at.Child("resources", "requests"))...)
	seen := map[string]bool{}
	for i, e := range c.Env {
		// A value may be made of the one that it hides.
		if seen[e.Name] && !strings.Contains(e.Value, "$("+e.Name+")") {
			out = append(out, fmt.Sprintf("%s: hides previous definition of %q, which may be dropped when using apply", at.Child("env").Index(i), e.Name))
		}
		seen[e.Name] = true
	}
	first := map[corev1.ContainerPort]int{}
	for i, p := range c.Ports {
		p.Name = ""
		if before, twice := first[p]; twice {
			out = append(out, fmt.Sprintf("%s: duplicate port definition with %s", at.Child("ports").Index(i), at.Child("ports").Index(before)))
			continue
		}
		first[p] = i
	}
	return out
}

// fractions finds amounts of bytes that are no whole number.
func fractions(list corev1.ResourceList, path *field.Path) []string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := list[name]; ok && q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer", path.Key(string(name)), q.String()))
		}
	}
	return out
}
