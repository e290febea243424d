package volumes

import (
	"fmt"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TrustBundles gives certificates of ClusterTrustBundles, in PEM.
type TrustBundles interface {
	ByName(name string, optional bool) ([]byte, error)
	BySigner(signer string, by *metav1.LabelSelector, optional bool) ([]byte, error)
}

// Certificates gives keys and certificates that are requested for pods, in PEM, by the volume and the index of the
// source in it.
type Certificates interface {
	Get(pod *v1.Pod, volume string, source int) (key, chain []byte, err error)
	Forget(types.UID)
}

// private is a file that is as secret as a token: readable by the group of the volume if there is one, else by the one
// user all containers run as, else as the volume says.
func private(pod *v1.Pod, data []byte, mode int32) file {
	f := file{data: data, mode: mode}
	if fsGroup(pod) != nil {
		f.mode = 0o600
	} else if uid := commonUser(pod); uid != nil {
		f.mode, f.uid = 0o600, uid
	}
	return f
}

func (m *Manager) trustBundle(pod *v1.Pod, p *v1.ClusterTrustBundleProjection,
	mode int32) (map[string]file, error) {
	if m.TrustBundles == nil {
		return nil, fmt.Errorf("clusterTrustBundle: the kubelet's feature gate ClusterTrustBundleProjection is off")
	}
	var data []byte
	var err error
	switch {
	case p.Name != nil:
		data, err = m.TrustBundles.ByName(*p.Name, optional(p.Optional))
	case p.SignerName != nil:
		data, err = m.TrustBundles.BySigner(*p.SignerName, p.LabelSelector, optional(p.Optional))
	default:
		err = fmt.Errorf("clusterTrustBundle: neither name nor signerName is set")
	}
	if err != nil {
		return nil, err
	}
	return map[string]file{path.Clean(p.Path): private(pod, data, mode)}, nil
}

func (m *Manager) certificate(pod *v1.Pod, volume string, source int, p *v1.PodCertificateProjection,
	mode int32) (map[string]file, error) {
	if m.Certificates == nil {
		return nil, fmt.Errorf("podCertificate: the kubelet's feature gate PodCertificateRequest is off")
	}
	key, chain, err := m.Certificates.Get(pod, volume, source)
	if err != nil {
		return nil, err
	}
	files := map[string]file{}
	for name, data := range map[string][]byte{
		p.CredentialBundlePath: slices.Concat(key, chain), p.KeyPath: key, p.CertificateChainPath: chain,
	} {
		if name != "" {
			files[path.Clean(name)] = private(pod, data, mode)
		}
	}
	return files, nil
}
