package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// withMounts gives the pod an empty directory "d", a claim "c" and an ephemeral volume "e", and the container these.
func withMounts(mounts []corev1.VolumeMount, devices ...corev1.VolumeDevice) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{
			{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: *claimOf(func(*corev1.PersistentVolumeClaimSpec) {})}}}}}
		s.Containers[0].VolumeMounts, s.Containers[0].VolumeDevices = mounts, devices
	}
}

func TestMounts(t *testing.T) {
	type mount = corev1.VolumeMount
	with := func(list ...mount) func(*corev1.PodSpec) { return withMounts(list) }
	both := func(m mount, d corev1.VolumeDevice) func(*corev1.PodSpec) { return withMounts([]mount{m}, d) }
	checkSpecs(t, "spec.containers[0].volumeMounts", []specCase{
		{"one twice", with(mount{Name: "d", MountPath: "/a"}, mount{Name: "d", MountPath: "/b"}), nil},
		{"nothing", with(mount{}), texts{"[0].name: Required value", `[0].name: Not found: ""`,
			"[0].mountPath: Required value"}},
		{"one path", with(mount{Name: "d", MountPath: "/a"}, mount{Name: "c", MountPath: "/a"}),
			texts{`[1].mountPath: Invalid value: "/a": must be unique`}},
		{"device as well", both(mount{Name: "c", MountPath: "/a"}, corev1.VolumeDevice{Name: "c", DevicePath: "/b"}),
			texts{`[0].name: Invalid value: "c": must not already exist in volumeDevices`,
				`spec.containers[0].volumeDevices[0].name: Invalid value: "c": must not already exist in volumeMounts`}},
		{
			"path of a device",
			both(mount{Name: "d", MountPath: "/a"}, corev1.VolumeDevice{Name: "c", DevicePath: "/a"}),
			texts{
				`[0].mountPath: Invalid value: "/a": must not already exist as a path in volumeDevices`,
				`spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/a": must not already exist as a path in volumeMounts`,
			},
		},
		{"part", with(mount{Name: "d", MountPath: "/a", SubPath: "b/..c"}), nil},
		{"absolute part", with(mount{Name: "d", MountPath: "/a", SubPath: "/b"}),
			texts{`.subPath: Invalid value: "/b": must be a relative path`}},
		{"part upwards", with(mount{Name: "d", MountPath: "/a", SubPath: "b/../c"}),
			texts{`.subPath: Invalid value: "b/../c": must not contain '..'`}},
		{"part of variables", with(mount{Name: "d", MountPath: "/a", SubPathExpr: "$(A)/b"}), nil},
		{"absolute part of variables", with(mount{Name: "d", MountPath: "/a", SubPathExpr: "/$(A)/.."}),
			texts{`.subPathExpr: Invalid value: "/$(A)/..": must be a relative path`,
				`.subPathExpr: Invalid value: "/$(A)/..": must not contain '..'`}},
		{"two parts", with(mount{Name: "d", MountPath: "/a", SubPath: "b", SubPathExpr: "c"}),
			texts{`[0].subPathExpr: Invalid value: "c": subPathExpr and subPath are mutually exclusive`}},
	})
}

func TestMountPropagation(t *testing.T) {
	with := func(mode corev1.MountPropagationMode, privileged *bool) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			withMounts([]corev1.VolumeMount{{Name: "d", MountPath: "/a", MountPropagation: &mode}})(s)
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: privileged}
		}
	}
	const refused = ": Forbidden: Bidirectional mount propagation is available only to privileged containers"
	checkSpecs(t, "spec.containers[0].volumeMounts.mountPropagation", []specCase{
		{"None", with("None", nil), nil},
		{"HostToContainer", with("HostToContainer", nil), nil},
		{"unknown", with("Both", nil), texts{`: Unsupported value: "Both": supported values: ` +
			`"Bidirectional", "HostToContainer", "None"`}},
		{"Bidirectional", with("Bidirectional", nil), texts{refused}},
		{"Bidirectional, not privileged", with("Bidirectional", new(false)), texts{refused}},
		{"Bidirectional without a security context", func(s *corev1.PodSpec) {
			with("Bidirectional", nil)(s)
			s.Containers[0].SecurityContext = nil
		}, texts{refused}},
	})
	p := minimal()
	with("Bidirectional", new(true))(&p.Spec)
	sameTexts(t, errorsBelow("", Rules{Privileged: true}.ValidateCreate(p)), nil)
}

func TestRecursiveReadOnly(t *testing.T) {
	const enabled, possible = corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible
	const onlyRead = ": Forbidden: may only be specified when readOnly is true"
	const onlyNone = ": Forbidden: may only be specified when mountPropagation is None or not specified"
	for _, c := range []struct {
		mode        corev1.RecursiveReadOnlyMode
		readOnly    bool
		propagation string
		want        texts
	}{
		{corev1.RecursiveReadOnlyDisabled, false, "HostToContainer", nil},
		{enabled, true, "", nil},
		{enabled, true, "None", nil},
		{enabled, false, "", texts{onlyRead}},
		{possible, true, "HostToContainer", texts{onlyNone}},
		{possible, false, "HostToContainer", texts{onlyRead, onlyNone}},
		{"Always", false, "HostToContainer",
			texts{`: Unsupported value: "Always": supported values: "Disabled", "Enabled", "IfPossible"`}},
	} {
		m := corev1.VolumeMount{Name: "d", MountPath: "/a", RecursiveReadOnly: &c.mode, ReadOnly: c.readOnly}
		if c.propagation != "" {
			m.MountPropagation = new(corev1.MountPropagationMode(c.propagation))
		}
		checkSpecs(t, "spec.containers[0].volumeMounts.recursiveReadOnly",
			[]specCase{{string(c.mode) + c.propagation, withMounts([]corev1.VolumeMount{m}), c.want}})
	}
}

func TestDevices(t *testing.T) {
	type device = corev1.VolumeDevice
	with := func(list ...device) func(*corev1.PodSpec) { return withMounts(nil, list...) }
	checkSpecs(t, "spec.containers[0].volumeDevices", []specCase{
		{"claim and ephemeral", with(device{Name: "c", DevicePath: "/a"}, device{Name: "e", DevicePath: "/b"}), nil},
		{"nothing", with(device{}), texts{"[0].name: Required value", `[0].name: Not found: ""`,
			"[0].devicePath: Required value"}},
		{"directory", with(device{Name: "d", DevicePath: "/a"}),
			texts{`[0].name: Invalid value: "d": can only use volume ` +
				"source type of PersistentVolumeClaim or Ephemeral for block mode"}},
		{"one volume", with(device{Name: "c", DevicePath: "/a"}, device{Name: "c", DevicePath: "/b"}),
			texts{`[1].name: Invalid value: "c": must be unique`}},
		{"one path", with(device{Name: "c", DevicePath: "/a"}, device{Name: "e", DevicePath: "/a"}),
			texts{`[1].devicePath: Invalid value: "/a": must be unique`}},
		{"upwards", with(device{Name: "c", DevicePath: "/a/.."}),
			texts{`[0].devicePath: Invalid value: "/a/..": can not contain backsteps ('..')`}},
	})
}

// TestPaths: which paths may stand below another.
func TestPaths(t *testing.T) {
	const absolute, up, reserved = "must be a relative path", "must not contain '..'", "must not start with '..'"
	for path, want := range map[string]texts{
		"": nil, "a": nil, "a/..b": nil, ".": nil, "a/": nil,
		"/a": {absolute}, "a/..": {up}, "..": {up, reserved}, "../a": {up}, "/..": {absolute, up},
		"..a": {reserved}, "..a/b": {reserved},
	} {
		for i := range want {
			want[i] = `p: Invalid value: "` + path + `": ` + want[i]
		}
		sameTexts(t, errorsBelow("", unreserved(path, field.NewPath("p"))), want)
	}
}
