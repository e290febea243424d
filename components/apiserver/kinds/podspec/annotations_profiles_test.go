package podspec

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func appArmorOf(kind corev1.AppArmorProfileType, local *string) *corev1.AppArmorProfile {
	return &corev1.AppArmorProfile{Type: kind, LocalhostProfile: local}
}

// annotated is a pod with an AppArmor annotation, and with profiles of itself and of its container.
func annotated(annotation string, whole, own *corev1.AppArmorProfile) *corev1.Pod {
	p := minimal()
	p.Annotations = map[string]string{appArmorKey("c"): annotation}
	if whole != nil {
		p.Spec.SecurityContext.AppArmorProfile = whole
	}
	if own != nil {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: own}
	}
	return p
}

// TestAppArmorAnnotations: what becomes of them in new pods, and what is told of them there and in templates.
func TestAppArmorAnnotations(t *testing.T) {
	const unconfined, runtimeDefault, localhost = corev1.AppArmorProfileTypeUnconfined,
		corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeLocalhost
	free, preset, local := appArmorOf(unconfined, nil), appArmorOf(runtimeDefault, nil),
		appArmorOf(localhost, ptr.To("p"))
	const badType = "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation " +
		"and field must match"
	const badName = "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile " +
		"in annotation and field must match"
	for _, tc := range []struct {
		name, annotation string
		whole, own       *corev1.AppArmorProfile
		want             string // the container's profile in the end
		warns, told      bool   // of the pod, and of the template
		err              string
	}{
		{"becomes a field", "localhost/p", nil, nil, "Localhost p", true, true, ""},
		{"has one", "unconfined", nil, free, "Unconfined", false, false, ""},
		{"says what the pod says", "runtime/default", preset, nil, "", false, false, ""},
		{"says what the pod says, by name", "localhost/p", local, nil, "", false, false, ""},
		{"says something else than the pod", "unconfined", preset, nil, "Unconfined", true, true, ""},
		{"names nothing", "localhost/", nil, nil, "", true, true, ""},
		{"is empty", "", nil, nil, "", true, true, ""},
		{"is padded", "localhost/ p", nil, nil, "", true, true, ""},
		{"is too long", "localhost/" + strings.Repeat("p", 4096), nil, nil, "", true, true, ""},
		{"is empty, for a pod with a profile", "", free, nil, "", true, true, badType},
		{"names nothing, for a pod with another profile", "localhost/", local, nil, "", true, true, badName},
		{"is empty, for a container with a profile", "", nil, free, "Unconfined", false, false, badType},
		{"of another type", "unconfined", nil, local, "Localhost p", false, false, badType},
		{"of another name", "localhost/q", nil, local, "Localhost p", false, false, badName},
		{"of another type than the default", "unconfined", nil, preset, "RuntimeDefault", false, false, badType},
		{"the container's counts", "unconfined", preset, free, "Unconfined", false, false, ""},
	} {
		p := annotated(tc.annotation, tc.whole, tc.own)
		template := &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: *p.Spec.DeepCopy()}
		warnings := PrepareCreate(api.PodFeatures{}, p, time.Time{})
		told := slices.DeleteFunc(TemplateWarnings(template, field.NewPath("template")),
			func(s string) bool { return !strings.Contains(s, "apparmor") })
		got := ""
		if profile := ownAppArmor(&p.Spec.Containers[0]); profile != nil {
			got = strings.TrimSpace(string(profile.Type) + " " + ptr.Deref(profile.LocalhostProfile, ""))
		}
		if got != tc.want || len(warnings) > 0 != tc.warns || len(told) > 0 != tc.told {
			t.Errorf("%s: got %q, warnings %q and %q", tc.name, got, warnings, told)
		}
		if errs := (Rules{}).ValidateCreate(p); tc.err == "" && len(errs) > 0 ||
			tc.err != "" && (len(errs) != 1 || errs[0].Error() != tc.err) {
			t.Errorf("%s: got errors %q, want %q", tc.name, errs, tc.err)
		}
	}
}

// TestTemplateProfilesAgree: in templates, whose annotations become no fields, those of the pod are compared too.
func TestTemplateProfilesAgree(t *testing.T) {
	preset := appArmorOf(corev1.AppArmorProfileTypeRuntimeDefault, nil)
	for annotation, want := range map[string]bool{"unconfined": true, "": true, "localhost/p": true,
		"runtime/default": false} {
		p := annotated(annotation, preset, nil)
		check := func() field.ErrorList { return validateProfilesAgree(p.Annotations, &p.Spec, field.NewPath("spec")) }
		if errs := check(); len(errs) > 0 != want {
			t.Errorf("%q: got %q", annotation, errs)
		}
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		if errs := check(); len(errs) > 0 {
			t.Errorf("%q, for Windows: got %q", annotation, errs)
		}
	}
}

// TestSeccompAgrees: also annotations that say nothing are compared.
func TestSeccompAgrees(t *testing.T) {
	const local = corev1.SeccompProfileTypeLocalhost
	for _, tc := range []struct {
		annotation string
		field      corev1.SeccompProfile
		want       string
	}{
		{"docker/default", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, ""},
		{"runtime/default", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, ""},
		{"", corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
			"spec.securityContext.seccompProfile.type"},
		{"localhost/a", corev1.SeccompProfile{Type: local, LocalhostProfile: ptr.To("a")}, ""},
		{"localhost/a", corev1.SeccompProfile{Type: local, LocalhostProfile: ptr.To("b")},
			"spec.securityContext.seccompProfile.localhostProfile"},
		{"localhost/a", corev1.SeccompProfile{Type: local}, "spec.securityContext.seccompProfile.localhostProfile"},
		{"x", corev1.SeccompProfile{Type: "unknown"}, ""},
	} {
		s := &corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &tc.field}}
		errs := validateProfilesAgree(map[string]string{corev1.SeccompPodAnnotationKey: tc.annotation}, s,
			field.NewPath("spec"))
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Field != tc.want) {
			t.Errorf("%q, %+v: got %q", tc.annotation, tc.field, errs)
		}
	}
}
