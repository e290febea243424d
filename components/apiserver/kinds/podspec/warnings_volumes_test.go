package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestVolumesThatAreGoing: types that are deprecated or do nothing any more.
func TestVolumesThatAreGoing(t *testing.T) {
	checkWarnings(t, []specCase{
		{"photon", withVolume(volumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}),
			texts{"spec.volumes[0].photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"}},
		{"git", withVolume(volumeSource{GitRepo: &corev1.GitRepoVolumeSource{}}),
			texts{"spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"}},
		{"ScaleIO", withVolume(volumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}),
			texts{"spec.volumes[0].scaleIO: deprecated in v1.16, non-functional in v1.22+"}},
		{"Flocker", withVolume(volumeSource{Flocker: &corev1.FlockerVolumeSource{}}),
			texts{"spec.volumes[0].flocker: deprecated in v1.22, non-functional in v1.25+"}},
		{"StorageOS", withVolume(volumeSource{StorageOS: &corev1.StorageOSVolumeSource{}}),
			texts{"spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+"}},
		{"Quobyte", withVolume(volumeSource{Quobyte: &corev1.QuobyteVolumeSource{}}),
			texts{"spec.volumes[0].quobyte: deprecated in v1.22, non-functional in v1.25+"}},
		{"Glusterfs", withVolume(volumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}),
			texts{"spec.volumes[0].glusterfs: deprecated in v1.25, non-functional in v1.26+"}},
		{"CephFS", withVolume(volumeSource{CephFS: &corev1.CephFSVolumeSource{}}),
			texts{"spec.volumes[0].cephfs: deprecated in v1.28, non-functional in v1.31+"}},
		{"RBD", withVolume(volumeSource{RBD: &corev1.RBDVolumeSource{}}),
			texts{"spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"}},
		{"others", func(s *corev1.PodSpec) {
			for _, source := range volumesToDefault() {
				if source.RBD == nil && source.ScaleIO == nil && source.Projected == nil && source.Ephemeral == nil {
					withVolume(source)(s)
				}
			}
		}, nil},
	})
}

// TestOverlappingFiles: a file can't be a directory as well.
func TestOverlappingFiles(t *testing.T) {
	keys := func(paths ...string) (items []corev1.KeyToPath) {
		for _, path := range paths {
			items = append(items, corev1.KeyToPath{Key: "k", Path: path})
		}
		return items
	}
	files := func(paths ...string) (items []corev1.DownwardAPIVolumeFile) {
		for _, path := range paths {
			items = append(items, corev1.DownwardAPIVolumeFile{Path: path})
		}
		return items
	}
	ref := corev1.LocalObjectReference{Name: "n"}
	config := func(paths ...string) func(*corev1.PodSpec) {
		return withVolume(volumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref,
			Items: keys(paths...)}})
	}
	projected := func(list ...corev1.VolumeProjection) func(*corev1.PodSpec) {
		return withVolume(volumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: list}})
	}
	fromConfig := func(paths ...string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref,
			Items: keys(paths...)}}
	}
	fromSecret := func(paths ...string) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: ref,
			Items: keys(paths...)}}
	}
	fromPod := func(paths ...string) corev1.VolumeProjection {
		return corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: files(paths...)}}
	}
	name := "b"
	bundle := corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &name, Path: "c"}}
	certificate := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a.b/c",
		CredentialBundlePath: "b", KeyPath: "c/k"}}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "a"}}
	checkWarnings(t, []specCase{
		{"beside", config("a", "b", "ab", "c/a", "c/b"), nil},
		{"the same", config("a", "a"), texts{`volume "v" (ConfigMap "n"): overlapping paths: "a" with "a"`}},
		{"below", config("a", "a/b"), texts{`volume "v" (ConfigMap "n"): overlapping paths: "a/b" with "a"`}},
		{"above", config("a/b/c", "a"), texts{`volume "v" (ConfigMap "n"): overlapping paths: "a" with "a/b/c"`}},
		{"slash at the end", config("a/", "a"), texts{`volume "v" (ConfigMap "n"): overlapping paths: "a" with "a"`}},
		{"two of three", config("a", "b", "a/c"),
			texts{`volume "v" (ConfigMap "n"): overlapping paths: "a/c" with "a"`}},
		{"secret", withVolume(volumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: keys("a", "a")}}),
			texts{`volume "v" (Secret "s"): overlapping paths: "a" with "a"`}},
		{"downward API",
			withVolume(volumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files("a", "a/b")}}),
			texts{`volume "v" (DownwardAPI): overlapping paths: "a/b" with "a"`}},
		{"of projections", projected(fromConfig("a"), fromSecret("a/b"), fromPod("a/c"), token), texts{
			`volume "v" (Projected): overlapping paths: "a/b" (Secret "n") with "a" (ConfigMap "n")`,
			`volume "v" (Projected): overlapping paths: "a/c" (DownwardAPI) with "a" (ConfigMap "n")`,
			`volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a" (ConfigMap "n")`,
			`volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a/b" (Secret "n")`,
			`volume "v" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a/c" (DownwardAPI)`}},
		{"of certificates", projected(bundle, certificate), texts{
			`volume "v" (Projected): overlapping paths: "c/k" (PodCertificate "a.b/c") with "c" (ClusterTrustBundle "b")`}},
		{"of projections beside each other", projected(fromConfig("a"), fromSecret("b"), fromPod("c")), nil},
		{"source of nothing", projected(corev1.VolumeProjection{}),
			texts{`volume "v" (Projected) has no sources provided`}},
	})
}
