package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// ValidateEphemeralUpdate checks a change through /ephemeralcontainers: they may be added, and stay as they are. meta
// are the faults of the metadata, of which clients are told first, if at all.
func (r Rules) ValidateEphemeralUpdate(new, old *corev1.Pod, meta field.ErrorList) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	was := oldPodState(old)
	errs := slices.Concat(meta, r.validatePod(new, was), keptAnnotations(new, was))
	path := field.NewPath("spec", "ephemeralContainers")
	is := map[string]corev1.EphemeralContainer{}
	for _, c := range new.Spec.EphemeralContainers {
		is[c.Name] = c
	}
	for _, was := range old.Spec.EphemeralContainers {
		c, kept := is[was.Name]
		if !kept {
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		} else if !apiequality.Semantic.DeepEqual(was, c) {
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name,
					diff.Diff(checks.Unversioned(was), checks.Unversioned(c)))))
		}
	}
	return errs
}
