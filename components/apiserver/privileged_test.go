package apiserver

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestPrivilegeIsToldOfInItsPlace: beside what is said of the same container, and before what is said of the change.
func TestPrivilegeIsToldOfInItsPlace(t *testing.T) {
	yes := true
	privileged := &corev1.SecurityContext{Privileged: &yes}
	windows := &corev1.WindowsSecurityContextOptions{HostProcess: &yes}
	fields := func(names ...string) (errs field.ErrorList) {
		for _, name := range names {
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: name})
		}
		return errs
	}
	for name, c := range map[string]struct {
		spec       corev1.PodSpec
		said, want []string
	}{
		"nothing": {corev1.PodSpec{Containers: []corev1.Container{{}}}, []string{"spec.x"}, []string{"spec.x"}},
		"alone": {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: privileged}}}, nil,
			[]string{"spec.containers[0].securityContext.privileged"}},
		"beside others": {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: privileged}}},
			[]string{"spec.containers[0].image", "spec.containers[0].securityContext.procMount", "spec"},
			[]string{"spec.containers[0].image", "spec.containers[0].securityContext.privileged", "spec.containers[0].securityContext.procMount", "spec"}},
		"before the change": {corev1.PodSpec{InitContainers: []corev1.Container{{SecurityContext: privileged}}}, []string{"metadata.name", "spec"},
			[]string{"metadata.name", "spec.initContainers[0].securityContext.privileged", "spec"}},
		"process of the host": {corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{WindowsOptions: windows}}}},
			[]string{"spec.hostNetwork", "spec.x"}, []string{"spec.hostNetwork", "spec", "spec.x"}},
		"processes of the host": {corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{WindowsOptions: windows}, Containers: []corev1.Container{{}}}, nil, []string{"spec"}},
	} {
		var got []string
		for _, err := range withoutPrivilege(fields(c.said...), &corev1.Pod{Spec: c.spec}) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
