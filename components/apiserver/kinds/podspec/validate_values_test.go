package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// TestShownValues: names of resources, and what is optional, are shown as JSON has them; other text is quoted as in Go.
func TestShownValues(t *testing.T) {
	const shown = `p: Invalid value: "a\u003cb": `
	at := field.NewPath("p")
	for _, errs := range []field.ErrorList{
		QualifiedResource("a<b", at),
		ContainerResource("a<b", at)[:1],
	} {
		expect(t, errorTexts(errs.ToAggregate()), []string{shown + "name part must consist of"})
	}
	profile := validateAppArmor(appArmorOf(corev1.AppArmorProfileTypeUnconfined, ptr.To("a<b")), field.NewPath("p"))
	expect(t, errorTexts(profile.ToAggregate()),
		[]string{`p.localhostProfile: Invalid value: "a\u003cb": can only be set when AppArmor type is Localhost`})

	claims := []corev1.PodResourceClaim{{Name: "c"}}
	statuses := validateClaimStatuses([]corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr.To("a<b")}},
		claims, at)
	expect(t, errorTexts(statuses.ToAggregate()),
		[]string{`p[0].resourceClaimName: Invalid value: "a\u003cb": a lowercase RFC 1123 subdomain`})
	statuses = validateClaimStatuses([]corev1.PodResourceClaimStatus{{Name: "a<b"}}, claims, at)
	expect(t, errorTexts(statuses.ToAggregate()), []string{`p[0].name: Invalid value: "a<b": must match`})
}

// TestClaimsOfMirrorPods: each is refused.
func TestClaimsOfMirrorPods(t *testing.T) {
	p := minimal()
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	_, errs := validateClaims([]corev1.PodResourceClaim{{Name: "a"}, {}}, &p.ObjectMeta, field.NewPath("claims"))
	const refused = "[]: Forbidden: static pods do not support resource claims"
	expect(t, errorTexts(errs.ToAggregate()), []string{refused})
	if len(errs) != 2 { // of which an aggregate shows one
		t.Errorf("%d errors", len(errs))
	}
}

// TestKernelParametersOfTheHost: the first separator tells which of the two it is; the other one is a part of names.
func TestKernelParametersOfTheHost(t *testing.T) {
	for name, c := range map[string]struct{ network, ipc bool }{
		"net.ipv4.tcp_rmem":      {network: true},
		"net/ipv4/conf/eno2.100": {network: true},
		"net/ipv4.x":             {network: true},
		"fs.mqueue.msg_max":      {ipc: true},
		"fs/mqueue/msg_max":      {ipc: true},
		"fs/mqueue.msg_max":      {},
		"fs.mqueue/msg_max":      {},
		"kernel.shmmax":          {ipc: true},
		"kernel/shmmax":          {ipc: true},
		"vm.swappiness":          {},
	} {
		at := field.NewPath("p")
		if errs := ofHost(name, &corev1.PodSpec{HostNetwork: true}, at); len(errs) > 0 != c.network {
			t.Errorf("%s, network of the host: %v", name, errs)
		}
		if errs := ofHost(name, &corev1.PodSpec{HostIPC: true}, at); len(errs) > 0 != c.ipc {
			t.Errorf("%s, IPC of the host: %v", name, errs)
		}
		if errs := ofHost(name, &corev1.PodSpec{}, at); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestVolumesOfFiles: of several volumes of a name, which is told of elsewhere, the last one counts.
func TestVolumesOfFiles(t *testing.T) {
	empty := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	other := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}
	for want, lists := range map[string][][]corev1.Volume{
		"": {{empty}, {other, empty}},
		`p: Invalid value: "v": referenced volume must be of type emptyDir`: {{other}, {empty, other}},
		`p: Not found: "v"`: {nil, {{Name: "w"}}},
	} {
		for _, list := range lists {
			errs := fileVolume("v", list, field.NewPath("p"))
			if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || errs[0].Error() != want) {
				t.Errorf("%v: %v, want %q", list, errs, want)
			}
		}
	}
}
