package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestPodWarnings(t *testing.T) {
	for want, change := range map[string]func(p *corev1.Pod){
		"": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PATH", Value: "/a"}, {Name: "PATH", Value: "$(PATH):/b"}}
		},
		`spec.containers[0].env[1]: hides previous definition of "x", which may be dropped when using apply`: func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}}
		},
		"spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 80, Protocol: "TCP", Name: "b"}}
		},
		"spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1": func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(-1))
		},
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"}
		},
		`spec.imagePullSecrets[0].name: invalid empty name ""`: func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{}}
		},
		`spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer`: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("100m")}
		},
	} {
		p := minimal()
		change(p)
		got := PodWarnings(p, nil)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0] != want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := PodWarnings(p, p); got != nil {
			t.Errorf("of an update: %q", got)
		}
	}
	dotted := minimal()
	dotted.Name = "a.b"
	if got := PodWarnings(dotted, nil); len(got) != 1 {
		t.Errorf("of a name with a dot: %q", got)
	}
	bad := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{}}}}
	got := TemplateWarnings(bad, field.NewPath("spec", "template"))
	if len(got) != 1 || got[0] != `spec.template.spec.imagePullSecrets[0].name: invalid empty name ""` {
		t.Errorf("of a template: %q", got)
	}
}
