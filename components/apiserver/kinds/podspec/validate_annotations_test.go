package podspec

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestDeletionCosts(t *testing.T) {
	for text, good := range map[string]bool{
		"0": true, "7": true, "-7": true, "-05": true, "-0": true, "2147483647": true, "-2147483648": true,
		"": false, "+7": false, "05": false, "00": false, "-": false, "-+5": false, "x": false, "2147483648": false,
		" 7": false,
	} {
		if isCost(text) != good {
			t.Errorf("%q: %t", text, !good)
		}
	}
}

// TestChangedAnnotations: clients are told first of what goes or changes, and then of what comes.
func TestChangedAnnotations(t *testing.T) {
	const profile = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	old, new := minimal(), minimal()
	old.Spec.NodeName, new.Spec.NodeName = "n", "n"
	old.Annotations = map[string]string{profile + "z": "unconfined", profile + "c": "unconfined", "color": "red"}
	new.Annotations = map[string]string{profile + "a": "unconfined", profile + "c": "runtime/default", "shape": "round",
		corev1.MirrorPodAnnotationKey: "x"}
	errs := keptAnnotations(new, oldPodState(old))
	expect(t, errorTexts(errs.ToAggregate()), []string{
		"metadata.annotations[" + profile + "c]: Forbidden: may not remove or update AppArmor annotations",
		"metadata.annotations[" + profile + "z]: Forbidden: may not remove or update AppArmor annotations",
		"metadata.annotations[" + profile + "a]: Forbidden: may not add AppArmor annotations",
		"metadata.annotations[" + corev1.MirrorPodAnnotationKey + "]: Forbidden: may not add mirror pod annotation",
		"metadata.annotations[" + profile + "a]: Invalid value: \"a\": container not found",
	})
	delete(new.Annotations, profile+"a")
	new.Annotations[profile+"c"], new.Annotations[profile+"z"] = "unconfined", "unconfined"
	old.Annotations[corev1.MirrorPodAnnotationKey] = "y"
	errs = keptAnnotations(new, oldPodState(old))
	expect(t, errorTexts(errs.ToAggregate()), []string{
		"metadata.annotations[" + corev1.MirrorPodAnnotationKey +
			"]: Forbidden: may not remove or update mirror pod annotation",
		"metadata.annotations[" + profile + "z]: Invalid value: \"z\": container not found",
	})
}

// TestStoredAnnotationsAreFaultedTwice where a debugger comes: as part of the pod, and as what may not change.
func TestStoredAnnotationsAreFaultedTwice(t *testing.T) {
	old := minimal()
	old.Spec.ServiceAccountName = "default"
	old.Annotations = map[string]string{corev1.SeccompPodAnnotationKey: "x"}
	new := old.DeepCopy()
	new.Annotations = maps.Clone(old.Annotations)
	errs := Rules{}.ValidateEphemeralUpdate(new, old, nil)
	if len(errs) != 2 || errs[0].Error() != errs[1].Error() ||
		!strings.HasSuffix(errs[0].Error(), "must be a valid seccomp profile") {
		t.Errorf("%v", errs)
	}
}
