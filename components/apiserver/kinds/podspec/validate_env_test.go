package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func inEnv(list ...corev1.EnvVar) func(*corev1.PodSpec) {
	return inContainer(func(c *corev1.Container) { c.Env = list })
}

func fromSource(s corev1.EnvVarSource) corev1.EnvVar { return corev1.EnvVar{Name: "A", ValueFrom: &s} }

func TestEnv(t *testing.T) {
	local := corev1.LocalObjectReference{Name: "o"}
	config := func(name, key string) corev1.EnvVar {
		return fromSource(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}})
	}
	secret := func(name, key string) corev1.EnvVar {
		return fromSource(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}})
	}
	checkSpecs(t, "spec.containers[0].env[0].", []specCase{
		{"value", inEnv(corev1.EnvVar{Name: "A", Value: "x"}), nil},
		{"odd name", inEnv(corev1.EnvVar{Name: "a-1.b c/d"}), nil},
		{"no name", inEnv(corev1.EnvVar{}), texts{"name: Required value"}},
		{"name with =", inEnv(corev1.EnvVar{Name: "A=B"}),
			texts{`name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII…`}},
		{"name not of ASCII", inEnv(corev1.EnvVar{Name: "Ä"}), texts{`name: Invalid value: "Ä": a valid environment…`}},
		{"no source", inEnv(fromSource(corev1.EnvVarSource{})),
			texts{"valueFrom: Invalid value: \"\": must specify one of: " +
				"`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
		{"two sources", inEnv(fromSource(corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local, Key: "k"},
			SecretKeyRef:    &corev1.SecretKeySelector{LocalObjectReference: local, Key: "k"}})),
			texts{`valueFrom: Invalid value: "": may not have more than one field specified at a time`}},
		{"key of a config map", inEnv(config("o", "a.b_c-D")), nil},
		{"config map without a key", inEnv(config("o", "")), texts{"valueFrom.configMapKeyRef.key: Required value"}},
		{"no config map", inEnv(config("", "k")),
			texts{`valueFrom.configMapKeyRef.name: Invalid value: "": a lowercase RFC 1123 subdomain must…`}},
		{"bad key", inEnv(config("o", "a/b")),
			texts{`valueFrom.configMapKeyRef.key: Invalid value: "a/b": a valid config key must consist of…`}},
		{"key of a secret", inEnv(secret("o", "k")), nil},
		{"bad secret", inEnv(secret("S", "..")),
			texts{`valueFrom.secretKeyRef.name: Invalid value: "S": a lowercase RFC 1123 subdomain must…`,
				`valueFrom.secretKeyRef.key: Invalid value: "..": must not be '..'`}},
		{"secret without a key", inEnv(secret("o", "")), texts{"valueFrom.secretKeyRef.key: Required value"}},
	})
}

// TestFieldRefs: which fields variables show; files show others, see TestDownwardFiles.
func TestFieldRefs(t *testing.T) {
	ref := func(version, path string) func(*corev1.PodSpec) {
		return inEnv(fromSource(corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: version, FieldPath: path}}))
	}
	const known = `supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", ` +
		`"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`
	cases := []specCase{
		{"no version", ref("", "metadata.name"), texts{"apiVersion: Required value"}},
		{"no path", ref("v1", ""), texts{"fieldPath: Required value"}},
		{"unknown version", ref("v2", "metadata.name"),
			texts{`fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2`}},
		{
			"unknown field",
			ref("v1", "spec.containers"),
			texts{
				`fieldPath: Invalid value: "spec.containers": error converting fieldPath: field label not supported: spec.containers`,
			},
		},
		{"old name", ref("v1", "spec.host"), nil},
		{"label", ref("v1", "metadata.labels['a.b/C']"), nil},
		{"annotation", ref("v1", "metadata.annotations['A.b/C']"), nil}, // the domain is read in lower case
		{"domain of a label", ref("v1", "metadata.labels['A.b/C']"),
			texts{`valueFrom.fieldRef: Invalid value: "A.b/C": prefix part a lowercase RFC 1123 subdomain must…`}},
		{"no label", ref("v1", "metadata.labels['']"), texts{
			`valueFrom.fieldRef: Invalid value: "": name part must be non-empty`,
			`valueFrom.fieldRef: Invalid value: "": name part must consist of…`}},
		{"subscript of another field", ref("v1", "metadata.name['a']"),
			texts{`fieldPath: Invalid value: "metadata.name['a']": ` +
				"error converting fieldPath: field label does not support subscript: metadata.name['a']"}},
		{"subscript not closed", ref("v1", "metadata.labels['a'"),
			texts{`fieldPath: Invalid value: "metadata.labels['a'": ` +
				"error converting fieldPath: field label not supported: metadata.labels['a'"}},
	}
	for _, path := range envFields {
		cases = append(cases, specCase{path, ref("v1", path), nil})
	}
	for _, path := range []string{"metadata.labels", "metadata.annotations", "spec.restartPolicy", "spec.schedulerName",
		"status.phase"} {
		cases = append(cases, specCase{path, ref("v1", path),
			texts{`fieldPath: Unsupported value: "` + path + `": ` + known}})
	}
	for i := range cases {
		for j, text := range cases[i].want { // those of keys name the reference itself
			if text[0] == 'v' {
				cases[i].want[j] = "spec.containers[0].env[0]." + text
			}
		}
	}
	checkSpecs(t, "spec.containers[0].env[0].valueFrom.fieldRef.", cases)
}

func TestResourceFieldRefs(t *testing.T) {
	ref := func(name, divisor string) func(*corev1.PodSpec) {
		r := &corev1.ResourceFieldSelector{Resource: name}
		if divisor != "" {
			r.Divisor = resource.MustParse(divisor)
		}
		return inEnv(fromSource(corev1.EnvVarSource{ResourceFieldRef: r}))
	}
	only := func(what, values, of string) texts {
		return texts{`divisor: Invalid value: "` + what + `": only divisor's values ` + values +
			" are supported with the " + of + " resource"}
	}
	const bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
	checkSpecs(t, "spec.containers[0].env[0].valueFrom.resourceFieldRef.", []specCase{
		{"cpu", ref("limits.cpu", ""), nil},
		{"cpu in thousandths", ref("requests.cpu", "1m"), nil},
		{"cpu in thousands", ref("limits.cpu", "1k"), only("limits.cpu", "1m and 1", "cpu")},
		{"memory", ref("requests.memory", "1Mi"), nil},
		{"memory in twos", ref("requests.memory", "2"), only("requests.memory", bytes, "memory")},
		{"memory in thousandths", ref("limits.memory", "1m"), only("limits.memory", bytes, "memory")},
		{"storage", ref("limits.ephemeral-storage", "1G"), nil},
		{"storage in tens", ref("requests.ephemeral-storage", "10"),
			only("requests.ephemeral-storage", bytes, "local ephemeral storage")},
		{"pages", ref("limits.hugepages-2Mi", "1Mi"), nil},
		{"pages in pages", ref("requests.hugepages-2Mi", "2Mi"), only("requests.hugepages-2Mi", bytes, "hugepages")},
		{"nothing", ref("", ""), texts{"resource: Required value"}},
		{"another", ref("limits.example.com/gpu", "3"),
			texts{`resource: Unsupported value: "limits.example.com/gpu": supported values: ` +
				`"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`}},
	})
}

// TestFileKeyRefs (KEP-3721).
func TestFileKeyRefs(t *testing.T) {
	with := func(source corev1.VolumeSource, ref corev1.FileKeySelector) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			withVolume(source)(s)
			inEnv(fromSource(corev1.EnvVarSource{FileKeyRef: &ref}))(s)
		}
	}
	type ref = corev1.FileKeySelector
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	checkSpecs(t, "spec.containers[0].env[0].valueFrom.fileKeyRef.", []specCase{
		{"good", with(empty, ref{VolumeName: "v", Path: "a/b.env", Key: "K"}), nil},
		{"nothing", with(empty, ref{}), texts{"key: Required value", "volumeName: Required value",
			"path: Required value",
			`volumeName: Not found: ""`}},
		{"bad key", with(empty, ref{VolumeName: "v", Path: "a", Key: "="}),
			texts{`key: Invalid value: "=": a valid environment variable name must…`}},
		{"bad volume", with(empty, ref{VolumeName: "V", Path: "a", Key: "k"}),
			texts{`volumeName: Invalid value: "V": a lowercase RFC 1123 label must…`, `volumeName: Not found: "V"`}},
		{"path upwards", with(empty, ref{VolumeName: "v", Path: "a/../b", Key: "k"}),
			texts{`path: Invalid value: "a/../b": must not contain '..'`}},
		{"unknown volume", with(empty, ref{VolumeName: "w", Path: "a", Key: "k"}), texts{`volumeName: Not found: "w"`}},
		{"volume of the host", with(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
			ref{VolumeName: "v", Path: "a", Key: "k"}),
			texts{`volumeName: Invalid value: "v": referenced volume must be of type emptyDir`}},
	})
	checkSpecs(t, "spec.initContainers[0].", []specCase{
		{"init container", withInit(false, func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "B"},
				fromSource(corev1.EnvVarSource{FileKeyRef: &ref{VolumeName: "w", Path: "a", Key: "k"}})}
		}), texts{`env[1].valueFrom.fileKeyRef.volumeName: Not found: "w"`}}})
}

func TestEnvFrom(t *testing.T) {
	type from = corev1.EnvFromSource
	with := func(list ...from) func(*corev1.PodSpec) {
		return inContainer(func(c *corev1.Container) { c.EnvFrom = list })
	}
	config := func(name string) *corev1.ConfigMapEnvSource {
		return &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	}
	secret := func(name string) *corev1.SecretEnvSource {
		return &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	}
	checkSpecs(t, "spec.containers[0].envFrom", []specCase{
		{"config map", with(from{ConfigMapRef: config("a"), Prefix: "A-"}), nil},
		{"secret", with(from{SecretRef: secret("a")}), nil},
		{"name that ends in a dash", with(from{SecretRef: secret("a-")}), nil},
		{"prefix", with(from{ConfigMapRef: config("a"), Prefix: "A="}),
			texts{`[0].prefix: Invalid value: "A=": a valid environment variable name must…`}},
		{"no config map", with(from{ConfigMapRef: config("")}), texts{"[0].configMapRef.name: Required value"}},
		{"bad config map", with(from{ConfigMapRef: config("A")}),
			texts{`[0].configMapRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"no secret", with(from{SecretRef: secret("")}), texts{"[0].secretRef.name: Required value"}},
		{"bad secret", with(from{ConfigMapRef: config("a")}, from{SecretRef: secret("A")}),
			texts{`[1].secretRef.name: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"neither", with(from{}), texts{": Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
		{"both", with(from{ConfigMapRef: config("a"), SecretRef: secret("a")}),
			texts{`: Invalid value: "": may not have more than one field specified at a time`}},
	})
}
