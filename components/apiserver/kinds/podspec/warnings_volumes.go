package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes warns of types that are gone or going, and of files that stand in each other's way.
func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.path.Child("volumes").Index(i)
		for _, d := range []struct {
			name string
			used bool
			text string
		}{
			{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
			{"gitRepo", v.GitRepo != nil, "deprecated in v1.11, and disabled by default in v1.33+"},
			{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
			{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
			{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
			{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if d.used {
				w.add("%s: %s", at.Child(d.name), d.text)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.claim(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec"))
		}
	}
	for i := range w.spec.Volumes {
		w.overlaps(&w.spec.Volumes[i])
	}
}

func (w *warner) claim(s *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	w.bytes(s.Resources.Requests, corev1.ResourceStorage, at, "resources", "requests")
	w.bytes(s.Resources.Limits, corev1.ResourceStorage, at, "resources", "limits")
}

// ClaimWarnings tells of amounts in the spec of a persistent volume claim that are no whole numbers.
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, at *field.Path) []string {
	w := warner{}
	w.claim(s, at)
	return w.out
}

// writtenFile is a path that a volume writes, and what it comes from; "" is the volume itself.
type writtenFile struct{ path, source string }

func (f writtenFile) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

func bundleFile(b *corev1.ClusterTrustBundleProjection) writtenFile {
	of := b.SignerName
	if b.Name != nil {
		of = b.Name
	}
	if of == nil {
		return writtenFile{b.Path, "ClusterTrustBundle"}
	}
	return writtenFile{b.Path, fmt.Sprintf("ClusterTrustBundle %q", *of)}
}

func certificateFiles(c *corev1.PodCertificateProjection) []writtenFile {
	var out []writtenFile
	for _, path := range []string{c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath} {
		if path != "" {
			out = append(out, writtenFile{path, fmt.Sprintf("PodCertificate %q", c.SignerName)})
		}
	}
	return out
}

// overlaps warns of files that would have to be directories as well.
func (w *warner) overlaps(v *corev1.Volume) {
	var files []writtenFile
	what := ""
	switch {
	case v.ConfigMap != nil:
		what, files = fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, "")
	case v.Secret != nil:
		what, files = fmt.Sprintf("Secret %q", v.Secret.SecretName), keyFiles(v.Secret.Items, "")
	case v.DownwardAPI != nil:
		what, files = "DownwardAPI", downwardFiles(v.DownwardAPI.Items, "")
	case v.Projected != nil:
		what = "Projected"
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil:
				files = append(files, keyFiles(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))...)
			case s.Secret != nil:
				files = append(files, keyFiles(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))...)
			case s.DownwardAPI != nil:
				files = append(files, downwardFiles(s.DownwardAPI.Items, "DownwardAPI")...)
			case s.ServiceAccountToken != nil:
				files = append(files, writtenFile{s.ServiceAccountToken.Path, "ServiceAccountToken"})
			case s.ClusterTrustBundle != nil:
				files = append(files, bundleFile(s.ClusterTrustBundle))
			case s.PodCertificate != nil:
				files = append(files, certificateFiles(s.PodCertificate)...)
			default:
				w.add("volume %q (Projected) has no sources provided", v.Name)
			}
		}
	}
	for i, f := range files {
		for _, before := range files[:i] {
			if below(f.path, before.path) || below(before.path, f.path) {
				w.add("volume %q (%s): overlapping paths: %s with %s", v.Name, what, f, before)
			}
		}
	}
}

// below reports whether a path is another one or leads through it.
func below(path, top string) bool { return path == top || strings.HasPrefix(path, top+"/") }

func keyFiles(items []corev1.KeyToPath, source string) []writtenFile {
	out := make([]writtenFile, len(items))
	for i := range items {
		out[i] = writtenFile{strings.TrimRight(items[i].Path, "/"), source}
	}
	return out
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile, source string) []writtenFile {
	out := make([]writtenFile, len(items))
	for i := range items {
		out[i] = writtenFile{strings.TrimRight(items[i].Path, "/"), source}
	}
	return out
}
