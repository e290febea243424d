package podspec

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type texts = []string

// specCase is a change of the spec of a minimal pod and what is refused of it.
type specCase struct {
	name   string
	change func(s *corev1.PodSpec)
	want   texts // errors below the path of the table; see sameTexts
}

// checkSpecs creates pods with the changed specs. Those that are valid stay so on update, and none is modified.
func checkSpecs(t *testing.T, at string, cases []specCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := minimal()
			p.Spec.ServiceAccountName = "sa"
			c.change(&p.Spec)
			before := p.DeepCopy()
			sameTexts(t, errorsBelow(at, Rules{}.ValidateCreate(p)), c.want)
			if len(c.want) == 0 {
				sameTexts(t, errorsBelow("", Rules{}.ValidateUpdate(p, before)), nil)
			}
			if !reflect.DeepEqual(p, before) {
				t.Errorf("validation changed the pod to %+v", p)
			}
		})
	}
}

// errorsBelow writes errors without the path at which all of them should be.
func errorsBelow(at string, errs field.ErrorList) texts {
	var out texts
	for _, err := range errs {
		out = append(out, strings.TrimPrefix(err.Error(), at))
	}
	return out
}

// sameTexts compares texts; of one that ends in "…" only what is before.
func sameTexts(t *testing.T, got, want texts) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		begin, isPrefix := strings.CutSuffix(want[i], "…")
		same = got[i] == want[i] || isPrefix && strings.HasPrefix(got[i], begin)
	}
	if !same {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// inContainer is a change of the pod's only container.
func inContainer(change func(c *corev1.Container)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { change(&s.Containers[0]) }
}

// named is a container with defaults.
func named(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "i"}
	defaultContainer(&c)
	return c
}

// withInit adds a sidecar or another init container to the pod.
func withInit(sidecar bool, change func(c *corev1.Container)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		c := named("init")
		if sidecar {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		change(&c)
		s.InitContainers = append(s.InitContainers, c)
	}
}

// withVolume adds a volume "v" to the pod.
func withVolume(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "v", VolumeSource: source}) }
}
