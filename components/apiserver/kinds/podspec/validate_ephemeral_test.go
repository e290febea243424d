package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEphemeralUpdate: ephemeral containers come, and then stay as they are.
func TestEphemeralUpdate(t *testing.T) {
	list := func(names ...string) []corev1.EphemeralContainer {
		var out []corev1.EphemeralContainer
		for _, name := range names {
			out = append(out, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon(named(name))})
		}
		return out
	}
	changed := list("a")
	changed[0].Command = texts{"sh"}
	for name, c := range map[string]struct {
		is, was []corev1.EphemeralContainer
		want    texts
	}{
		"added":      {list("a"), nil, nil},
		"kept":       {list("a"), list("a"), nil},
		"added more": {list("a", "b"), list("a"), nil},
		"in front":   {list("b", "a"), list("a"), nil},
		"removed": {list("b"), list("a", "b"),
			texts{"spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be removed\n"}},
		"changed": {changed, list("a"),
			texts{"spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be changed\n…"}},
		"twice": {list("a", "a"), list("a"), texts{`spec.ephemeralContainers[1].name: Duplicate value: "a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			old, p := minimal(), minimal()
			old.Spec.EphemeralContainers, p.Spec.EphemeralContainers = c.was, c.is
			sameTexts(t, errorsBelow("", Rules{}.ValidateEphemeralUpdate(p, old, nil)), c.want)
		})
	}
}
