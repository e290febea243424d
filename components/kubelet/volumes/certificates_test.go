package volumes

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// bundles has one bundle, of one signer.
type bundles struct{}

func (bundles) ByName(name string, optional bool) ([]byte, error) {
	if name != "b" && !optional {
		return nil, errors.New("no such bundle")
	}
	return []byte("named"), nil
}

func (bundles) BySigner(signer string, by *metav1.LabelSelector, _ bool) ([]byte, error) {
	return []byte(signer + "/" + by.MatchLabels["l"]), nil
}

// issued has a certificate for one source of one volume.
type issued struct{ forgotten []types.UID }

func (*issued) Get(_ *v1.Pod, volume string, source int) (key, chain []byte, err error) {
	if volume != "v" || source != 1 {
		return nil, nil, errors.New("credential bundle is not issued yet")
	}
	return []byte("key;"), []byte("chain"), nil
}

func (i *issued) Forget(uid types.UID) { i.forgotten = append(i.forgotten, uid) }

func TestCertificatesAreProjected(t *testing.T) {
	bundle := func(p v1.ClusterTrustBundleProjection) v1.VolumeProjection {
		return v1.VolumeProjection{ClusterTrustBundle: &p}
	}
	certificate := v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{CredentialBundlePath: "all/it",
		KeyPath: "key", CertificateChainPath: "chain"}}
	for name, test := range map[string]struct {
		sources []v1.VolumeProjection
		off     bool // the feature gates
		want    map[string]string
		fails   string
	}{
		"by name": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{Name: ptr.To("b"), Path: "ca"})},
			want: map[string]string{"ca": "named"}},
		"by signer": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{SignerName: ptr.To("s"),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"l": "x"}}, Path: "d/ca"})},
			want: map[string]string{"d/ca": "s/x"}},
		"missing": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{Name: ptr.To("n"), Path: "ca"})},
			fails: "no such bundle"},
		"missing, optional": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{Name: ptr.To("n"),
			Path: "ca", Optional: ptr.To(true)})}, want: map[string]string{"ca": "named"}},
		"certificate": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{Name: ptr.To("b"),
			Path: "ca"}), certificate},
			want: map[string]string{"ca": "named", "all/it": "key;chain", "key": "key;", "chain": "chain"}},
		"not issued": {sources: []v1.VolumeProjection{certificate}, fails: "credential bundle is not issued yet"},
		"bundles are off": {sources: []v1.VolumeProjection{bundle(v1.ClusterTrustBundleProjection{Name: ptr.To("b")})},
			off: true, fails: "feature gate ClusterTrustBundleProjection is off"},
		"certificates are off": {sources: []v1.VolumeProjection{certificate}, off: true,
			fails: "feature gate PodCertificateRequest is off"},
	} {
		m, _ := manager(t, fake.NewClientset())
		certificates := &issued{}
		if !test.off {
			m.TrustBundles, m.Certificates = bundles{}, certificates
		}
		pod := podWith(v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: test.sources}}})
		paths, err := m.Mount(t.Context(), pod)
		if test.fails != "" {
			if err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: %v, want %q", name, err, test.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tree(t, paths["v"].Path); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
		if err := m.Remove(t.Context(), pod.UID); err != nil {
			t.Error(err)
		}
		if !slices.Equal(certificates.forgotten, []types.UID{"uid"}) {
			t.Errorf("%s: forgotten %v", name, certificates.forgotten)
		}
	}
}

// TestPrivateFiles: keys, bundles and tokens are for the pod's users alone where those are known.
func TestPrivateFiles(t *testing.T) {
	user, group := int64(7), int64(8)
	for name, test := range map[string]struct {
		context *v1.PodSecurityContext
		mode    fs.FileMode
		owned   bool
	}{
		"anybody's":  {nil, 0o640, false},
		"of a user":  {&v1.PodSecurityContext{RunAsUser: &user}, 0o600, true},
		"of a group": {&v1.PodSecurityContext{RunAsUser: &user, FSGroup: &group}, 0o600, false},
	} {
		pod := podWith()
		pod.Spec.SecurityContext = test.context
		f := private(pod, nil, 0o640)
		if fs.FileMode(f.mode) != test.mode || (f.uid != nil) != test.owned {
			t.Errorf("%s: %o, owner %v", name, f.mode, f.uid)
		}
	}
}
