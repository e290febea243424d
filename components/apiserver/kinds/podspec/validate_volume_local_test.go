package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLocalVolumes(t *testing.T) {
	empty := func(size string) func(*corev1.PodSpec) {
		q := resource.MustParse(size)
		return withVolume(volumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &q}})
	}
	host := func(path string, kind *corev1.HostPathType) func(*corev1.PodSpec) {
		return withVolume(volumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: kind}})
	}
	git := func(repository, directory string) func(*corev1.PodSpec) {
		return withVolume(volumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: repository,
			Directory: directory}})
	}
	checkSpecs(t, "spec.volumes[0].", []specCase{
		{"empty", empty("0"), nil},
		{"negative size", empty("-1"),
			texts{"emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"}},
		{"host", host("/a/..b", new(corev1.HostPathSocket)), nil},
		{"any of the host", host("a", new(corev1.HostPathUnset)), nil},
		{"none of the host", host("", nil), texts{"hostPath.path: Required value"}},
		{"upwards", host("/a/../b", nil), texts{`hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		{"type", host("/a", new(corev1.HostPathType("Pipe"))),
			texts{`hostPath.type: Unsupported value: "Pipe": supported values: "", ` +
				`"BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`}},
		{"repository", git("a", "b"), nil},
		{"no repository", git("", "/b"), texts{"gitRepo.repository: Required value",
			`gitRepo.directory: Invalid value: "/b": must be a relative path`}},
		{"out of the repository", git("a", ".."),
			texts{`gitRepo.directory: Invalid value: "..": must not contain '..'`}},
		{"no claim", withVolume(volumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			texts{"persistentVolumeClaim.claimName: Required value"}},
	})
}

// TestKeysAsFiles: secrets and config maps, alone and projected, become files by the same rules.
func TestKeysAsFiles(t *testing.T) {
	type item = corev1.KeyToPath
	const modes = "must be a number between 0 and 0777 (octal), both inclusive"
	for _, c := range []struct {
		name string
		item item
		want texts
	}{
		{"good", item{Key: "k", Path: "a/..b"}, nil},
		{"nothing", item{}, texts{"key: Required value", "path: Required value"}},
		{"absolute", item{Key: "k", Path: "/a"}, texts{`path: Invalid value: "/a": must be a relative path`}},
		{"kubelet's", item{Key: "k", Path: "..data"}, texts{`path: Invalid value: "..data": must not start with '..'`}},
		{"mode", item{Key: "k", Path: "a", Mode: new(int32(0o777))}, nil},
		{"great mode", item{Key: "k", Path: "a", Mode: new(int32(0o1000))},
			texts{"mode: Invalid value: 512: " + modes}},
		{"negative mode", item{Key: "k", Path: "a", Mode: new(int32(-1))}, texts{"mode: Invalid value: -1: " + modes}},
	} {
		ref := corev1.LocalObjectReference{Name: "n"}
		items := []item{{Key: "first", Path: "first"}, c.item}
		for at, source := range map[string]volumeSource{
			"secret.":    {Secret: &corev1.SecretVolumeSource{SecretName: "n", Items: items}},
			"configMap.": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref, Items: items}},
			"projected.sources[0].secret.": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: ref, Items: items}}}}},
			"projected.sources[0].configMap.": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref, Items: items}}}}},
		} {
			checkSpecs(t, "spec.volumes[0]."+at+"items[1].", []specCase{{at + c.name, withVolume(source), c.want}})
		}
	}
	checkSpecs(t, "spec.volumes[0].", []specCase{
		{"no secret", withVolume(volumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: new(int32(-1))}}),
			texts{"secret.secretName: Required value", "secret.defaultMode: Invalid value: -1: " + modes}},
		{"no config map",
			withVolume(volumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: new(int32(512))}}),
			texts{"configMap.name: Required value", "configMap.defaultMode: Invalid value: 512: " + modes}},
		{"mode of a projection",
			withVolume(volumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(512))}}),
			texts{"projected.defaultMode: Invalid value: 512: " + modes}},
		{"mode of the downward API",
			withVolume(volumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: new(int32(512))}}),
			texts{"downwardAPI.defaultMode: Invalid value: 512: " + modes}},
	})
}

// TestDownwardFiles: upstream doesn't tell which file of a volume it is.
func TestDownwardFiles(t *testing.T) {
	type file = corev1.DownwardAPIVolumeFile
	shown := func(path string) *corev1.ObjectFieldSelector {
		return &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
	}
	amount := func(container, name string) *corev1.ResourceFieldSelector {
		return &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}
	}
	for _, c := range []struct {
		name string
		file file
		want texts
	}{
		{"labels", file{Path: "a", FieldRef: shown("metadata.labels")}, nil},
		{"label", file{Path: "a", FieldRef: shown("metadata.labels['b']")}, nil},
		{"limit", file{Path: "a", ResourceFieldRef: amount("c", "limits.cpu")}, nil},
		{"only of variables", file{Path: "a", FieldRef: shown("status.podIP")},
			texts{`.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: "metadata.annotations", ` +
				`"metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`}},
		{"no path", file{FieldRef: shown("metadata.name")}, texts{".path: Required value"}},
		{"upwards", file{Path: "../a", FieldRef: shown("metadata.name")},
			texts{`.path: Invalid value: "../a": must not contain '..'`}},
		{"neither", file{Path: "a"}, texts{": Required value: one of fieldRef and resourceFieldRef is required"}},
		{"both", file{Path: "a", FieldRef: shown("metadata.name"), ResourceFieldRef: amount("", "")},
			texts{`: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously`}},
		{"no container", file{Path: "a", ResourceFieldRef: amount("", "limits.cpu")},
			texts{".resourceFieldRef.containerName: Required value"}},
		{"mode", file{Path: "a", FieldRef: shown("metadata.name"), Mode: new(int32(512))},
			texts{".mode: Invalid value: 512: must be a number…"}},
	} {
		alone := volumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []file{c.file}}}
		projected := volumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []file{c.file}}}}}}
		checkSpecs(t, "spec.volumes[0].downwardAPI", []specCase{{c.name, withVolume(alone), c.want}})
		checkSpecs(t, "spec.volumes[0].projected.sources[0].downwardAPI",
			[]specCase{{c.name, withVolume(projected), c.want}})
	}
}

func TestProjections(t *testing.T) {
	type source = corev1.VolumeProjection
	with := func(list ...source) func(*corev1.PodSpec) {
		return withVolume(volumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: list}})
	}
	keys := func(name string, paths ...string) source {
		var items []corev1.KeyToPath
		for _, path := range paths {
			items = append(items, corev1.KeyToPath{Key: "k", Path: path})
		}
		return source{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name},
			Items: items}}
	}
	token := func(path string, seconds int64) source {
		return source{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path,
			ExpirationSeconds: &seconds}}
	}
	name := source{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "a", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}}
	two := keys("m")
	two.Secret = &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}
	checkSpecs(t, "spec.volumes[0].projected", []specCase{
		{"none", with(), nil},
		{"one of each", with(keys("m", "x"), name, token("t", 600)), nil},
		{"source of nothing", with(source{}), nil},
		{"two in one", with(two), texts{".sources[0]: Forbidden: may not specify more than 1 volume type per source"}},
		{"no name", with(keys("")), texts{".sources[0].configMap.name: Required value"}},
		{"one path of two", with(keys("m", "a"), keys("n", "b", "a")),
			texts{`: Invalid value: "n": conflicting duplicate paths`}},
		{"one path of the downward API", with(keys("m", "a"), name),
			texts{`: Invalid value: "a": conflicting duplicate paths`}},
		{"one path within", with(keys("m", "a", "a")), texts{`: Invalid value: "m": conflicting duplicate paths`}},
		{"longest token", with(token("t", 1<<32)), nil},
		{"short token", with(token("t", 599)),
			texts{".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: " +
				"may not specify a duration less than 10 minutes"}},
		{"long token", with(token("t", 1<<32+1)),
			texts{".sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: " +
				"may not specify a duration larger than 2^32 seconds"}},
		{"token nowhere", with(token("", 600)), texts{".path: Required value"}},
		{"token upwards", with(token("../t", 600)), texts{`.path: Invalid value: "../t": must not contain '..'`}},
		{"token without an account", func(s *corev1.PodSpec) {
			s.ServiceAccountName = ""
			with(name, token("t", 600))(s)
		}, texts{".sources[1].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"}},
	})
}
