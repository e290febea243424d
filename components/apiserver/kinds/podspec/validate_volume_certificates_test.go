package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func projecting(list ...corev1.VolumeProjection) func(*corev1.PodSpec) {
	return withVolume(volumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: list}})
}

func TestTrustBundles(t *testing.T) {
	type projection = corev1.ClusterTrustBundleProjection
	with := func(p projection) func(*corev1.PodSpec) {
		return projecting(corev1.VolumeProjection{ClusterTrustBundle: &p})
	}
	none := &metav1.LabelSelector{}
	const at = ".sources[0].clusterTrustBundlePEM"
	const name = at + `.name: Invalid value: `
	checkSpecs(t, "spec.volumes[0].projected", []specCase{
		{"by name", with(projection{Name: ptr.To("b"), Path: "ca"}), nil},
		{"by name, of a signer", with(projection{Name: ptr.To("a.b:c:d"), Path: "ca"}), nil},
		{"by signer", with(projection{SignerName: ptr.To("a.b/c"), LabelSelector: none, Path: "ca"}), nil},
		{"by both", with(projection{Name: ptr.To("b"), SignerName: ptr.To("a.b/c"), Path: "ca"}),
			texts{at + ": Invalid value: {…"}},
		{"by neither", with(projection{Path: "ca"}),
			texts{at + ": Required value: either name or signerName must be specified"}},
		{"no name", with(projection{Name: ptr.To(""), Path: "ca"}), texts{
			at + ".name: Required value: must be a valid object name",
			name + `"": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain…`}},
		{"bad name", with(projection{Name: ptr.To("a.b:c:D"), Path: "ca"}),
			texts{name + `"a.b:c:D": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain…`}},
		{"name and selector", with(projection{Name: ptr.To("b"), LabelSelector: none, Path: "ca"}),
			texts{at + ".labelSelector: Invalid value: {}: labelSelector must be unset if name is specified"}},
		{"bad signer", with(projection{SignerName: ptr.To("c"), LabelSelector: none, Path: "ca"}),
			texts{at + ".signerName: Invalid value: \"c\": must be a fully qualified domain…"}},
		{"bad selector", with(projection{SignerName: ptr.To("a.b/c"), Path: "ca",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}}}),
			texts{at + `.labelSelector.matchLabels: Invalid value: "-": name part must…`}},
		{"no path", with(projection{Name: ptr.To("b")}), texts{at + ".path: Required value"}},
		{"path upwards", with(projection{Name: ptr.To("b"), Path: "../ca"}),
			texts{at + `.path: Invalid value: "../ca": must not contain '..'`}},
	})
}

func TestPodCertificates(t *testing.T) {
	const at = ".sources[0].podCertificate"
	change := func(f func(*corev1.PodCertificateProjection)) func(*corev1.PodSpec) {
		p := &corev1.PodCertificateProjection{SignerName: "a.b/c", KeyType: "ED25519", CredentialBundlePath: "all"}
		f(p)
		return projecting(corev1.VolumeProjection{PodCertificate: p})
	}
	seconds := func(signer string, n int32) func(*corev1.PodSpec) {
		return change(func(p *corev1.PodCertificateProjection) {
			p.SignerName, p.MaxExpirationSeconds = signer, &n
		})
	}
	checkSpecs(t, "spec.volumes[0].projected", []specCase{
		{"plain", change(func(*corev1.PodCertificateProjection) {}), nil},
		{"shortest", seconds("a.b/c", 3600), nil},
		{"longest", seconds("a.b/c", 7862400), nil},
		{"too short", seconds("a.b/c", 3599), texts{at +
			".maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"}},
		{"too long", seconds("a.b/c", 7862401), texts{at +
			".maxExpirationSeconds: Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400"}},
		{"too long for Kubernetes", seconds("kubernetes.io/c", 86401), texts{at +
			".maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400"}},
		{"key type", change(func(p *corev1.PodCertificateProjection) { p.KeyType = "DSA" }), texts{at +
			`.keyType: Unsupported value: "DSA": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", ` +
			`"ECDSAP521", "ED25519"`}},
		{"no signer", change(func(p *corev1.PodCertificateProjection) { p.SignerName = "" }),
			texts{at + ".signerName: Required value"}},
		{"no path", change(func(p *corev1.PodCertificateProjection) { p.CredentialBundlePath = "" }), texts{at +
			": Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath"}},
		{"one path of two", change(func(p *corev1.PodCertificateProjection) { p.KeyPath = "all" }),
			texts{`: Invalid value: "all": conflicting duplicate paths`}},
		{"absolute path", change(func(p *corev1.PodCertificateProjection) { p.CertificateChainPath = "/c" }),
			texts{at + `.certificateChainPath: Invalid value: "/c": must be a relative path`}},
		{"annotation", change(func(p *corev1.PodCertificateProjection) {
			p.UserAnnotations = map[string]string{"a": "b"}
		}), texts{at + `.userAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`}},
	})
}

func TestStopSignals(t *testing.T) {
	with := func(os corev1.OSName, signal corev1.Signal) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			if os != "" {
				s.OS = &corev1.PodOS{Name: os}
			}
			s.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &signal}
		}
	}
	const at = "spec.containers[0].lifecycle.stopSignal"
	checkSpecs(t, at, []specCase{
		{"Linux", with(corev1.Linux, corev1.SIGUSR1), nil},
		{"Linux, counted", with(corev1.Linux, "SIGRTMAX-14"), nil},
		{"Windows", with(corev1.Windows, corev1.SIGKILL), nil},
		{"no system", with("", corev1.SIGTERM),
			texts{": Forbidden: may not be set for containers with empty `spec.os.name`"}},
		{"not of Windows", with(corev1.Windows, corev1.SIGUSR1),
			texts{`: Unsupported value: "SIGUSR1": supported values: "SIGKILL", "SIGTERM"`}},
		{"not known", with(corev1.Linux, "SIGNONE"),
			texts{`: Unsupported value: "SIGNONE": supported values: "SIGABRT", …`}},
	})
	if all := linuxSignals(); len(all) != 65 || !slices.IsSorted(all) {
		t.Errorf("%d signals: %v", len(all), all)
	}
}
