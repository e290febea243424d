package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestPodWarnings(t *testing.T) {
	for want, change := range map[string]func(p *corev1.Pod){
		"": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PATH", Value: "/a"}, {Name: "PATH", Value: "$(PATH):/b"}}
		},
		`spec.containers[0].env[1]: hides previous definition of "x", which may be dropped when using apply`: func(
			p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}}
		},
		"spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]": func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"},
				{ContainerPort: 80, Protocol: "TCP", Name: "b"}}
		},
		"spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1": func(
			p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(-1))
		},
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`: func(
			p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"}
		},
		`spec.imagePullSecrets[0].name: invalid empty name ""`: func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{}}
		},
		`spec.containers[0].env[1]: hides previous definition of "y", which may be dropped when using apply`: func(
			p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "y", Value: "1"}, {Name: "y", Value: "$(y)"}}
		},
		`spec.containers[0].env[1]: hides previous definition of "z", which may be dropped when using apply`: func(
			p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "z", Value: "1"}, {
				Name: "z", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			}}
		},
		`spec.containers[0].ports[0]: duplicate port name "web" with spec.initContainers[0].ports[0], services and probes that select ports by name ` +
			`will use spec.initContainers[0].ports[0]`: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "i", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80}, {ContainerPort: 82}}}}
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 81}, {ContainerPort: 83}}
		},
		`spec.nodeSelector[app.kubernetes.io/created-by]: deprecated since v1.9`: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"app.kubernetes.io/created-by": "me"}
		},
		"spec.topologySpreadConstraints[0].topologyKey: scheduler.alpha.kubernetes.io/preferAvoidPods is deprecated since " +
			"v1.22; " +
			"use Taints and Tolerations instead": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: "scheduler.alpha.kubernetes.io/preferAvoidPods", LabelSelector: &metav1.LabelSelector{},
			}}
		},
		`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer`: func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
						Resources: corev1.VolumeResourceRequirements{
							Limits: corev1.ResourceList{"storage": resource.MustParse("1500m")}},
					}},
				}}}}
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

// TestPreferredValues: each thing that is wrong with a value is told alone, and of what is preferred only.
func TestPreferredValues(t *testing.T) {
	long := strings.Repeat("a", 64) + "_"
	term := corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"good", long}}}}
	p := minimal()
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: term}},
	}}
	at := "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[1]: " + long + " is invalid, "
	got := PodWarnings(p, nil)
	if len(got) != 2 || got[0] != at+"must be no more than 63 bytes" ||
		!strings.HasPrefix(got[1], at+"a valid label must be") {
		t.Errorf("got %q", got)
	}
}

// TestClaimWarnings takes amounts of any size, and none.
func TestClaimWarnings(t *testing.T) {
	amounts := func(request, limit string) (r corev1.VolumeResourceRequirements) {
		if request != "" {
			r.Requests = corev1.ResourceList{"storage": resource.MustParse(request)}
		}
		if limit != "" {
			r.Limits = corev1.ResourceList{"storage": resource.MustParse(limit)}
		}
		return r
	}
	fractional := func(list, amount string) string {
		return "spec.resources." + list + `[storage]: fractional byte value "` + amount +
			`" is invalid, must be an integer`
	}
	for _, tc := range []struct {
		request, limit string
		want           []string
	}{
		{"", "", nil},
		{"1Gi", "1500", nil},
		{"1500m", "1", []string{fractional("requests", "1500m")}},
		{"1m", "2500m", []string{fractional("requests", "1m"), fractional("limits", "2500m")}},
		{"8Pi", "10Pi", []string{fractional("limits", "10Pi")}}, // whose thousandths are too many to be counted
		{"9E", "1e30", nil},
	} {
		got := ClaimWarnings(&corev1.PersistentVolumeClaimSpec{Resources: amounts(tc.request, tc.limit)},
			field.NewPath("spec"))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s, %s: got %q, want %q", tc.request, tc.limit, got, tc.want)
		}
	}
}
