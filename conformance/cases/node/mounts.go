package node

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func mountCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/sub-path", Run: subPath, Reference: volumeDocs + "#using-subpath",
			Requirement: "A mount with a subPath MUST show that directory or file of its volume only."},
		{ID: "node/sub-path-expression", Run: subPathExpr, Reference: volumeDocs + "#using-subpath-expanded-environment",
			Requirement: "The variables of a subPathExpr MUST be expanded, and one that is not set MUST keep the container " +
				"from " +
				"starting."},
		{ID: "node/read-only-mount", Run: readOnlyMount, Reference: volumeDocs,
			Requirement: "A read-only mount MUST refuse writes, and not keep others of the same volume from them."},
		{ID: "node/recursive-read-only", Run: recursiveReadOnly, Reference: volumeDocs + "#recursive-read-only-mounts",
			Requirement: "recursiveReadOnly IfPossible MUST be honoured where the node says that it can, and the status MUST " +
				"tell."},
		{ID: "node/mount-propagation", Run: mountPropagation, Reference: volumeDocs + "#mount-propagation",
			Requirement: "A mount below a Bidirectional one MUST appear in containers with HostToContainer, and " +
				"not in those with None."},
		{ID: "node/host-path-types", Run: hostPathTypes, Reference: volumeDocs + "#hostpath-volume-types",
			Requirement: "A hostPath MUST be made where its type says so, and a pod MUST wait where what its type demands is " +
				"not " +
				"there."},
		{ID: "node/empty-dir-memory", Run: emptyDirMemory, Reference: volumeDocs + "#emptydir",
			Requirement: "An emptyDir of medium Memory MUST take no more than its size limit."},
		{ID: "node/empty-dir-limit", Run: emptyDirLimit, Reference: volumeDocs + "#emptydir",
			Requirement: "A pod whose emptyDir grows over its size limit MUST be evicted."},
		{ID: "node/empty-dir-removed", Run: emptyDirFresh, Reference: volumeDocs + "#emptydir",
			Requirement: "An emptyDir MUST survive its containers, and be empty for the next pod of the same name."},
		{ID: "node/projected-volume", Run: projectedAll, Reference: projected,
			Requirement: "A projected volume MUST hold what all its sources say, under their paths and with their modes."},
		{ID: "node/projected-update", Run: projectedUpdate, Reference: projected,
			Timeout:     2 * volumeDelay,
			Requirement: "A running pod MUST see changed secrets, config maps and labels in its projected volume."},
		{ID: "node/optional-sources", Run: optionalSources, Reference: volumeDocs + "#configmap",
			Requirement: "A pod MUST start without the optional config maps and secrets that are missing, in volumes and " +
				"variables."},
		{ID: "node/items", Run: configItems, Reference: volumeDocs + "#configmap",
			Requirement: "Items of a config map MUST appear under their paths with their modes, and others not at all."},
		{ID: "node/downward-resources", Run: downwardResources, Reference: downward + "#downwardapi-resourceFieldRef",
			Requirement: "Variables of resource fields MUST tell the container's requests and limits in units of the divisor, " +
				"and " +
				"what the node has where there is no limit."},
		{ID: "node/env-from", Run: envFrom, Reference: environment,
			Requirement: "All keys of a config map or secret MUST become variables with the prefix, and env MUST win over " +
				"them."},
		{ID: "node/env-key-missing", Run: envKeyMissing, Reference: environment,
			Requirement: "A container that needs a missing key MUST wait with CreateContainerConfigError."},
		{ID: "node/env-expansion", Run: envExpansion, Reference: environment,
			Requirement: "References to variables in command, arguments and variables MUST be expanded, escaped ones kept, " +
				"and " +
				"unknown ones left as they are."},
		{ID: "node/service-variables", Run: serviceVariables,
			Reference:   "https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables",
			Requirement: "A pod MUST have the variables of the Services of its namespace, unless it turns service links off."},
	})
}

// withVolume adds a volume and mounts it into all containers.
func withVolume(p *corev1.Pod, source corev1.VolumeSource, mount corev1.VolumeMount) *corev1.Pod {
	mount.Name = "volume"
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: source})
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts, mount)
	}
	return p
}

func emptyDir() corev1.VolumeSource {
	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
}

func createConfigMap(ctx context.Context, t *suite.T, name string, data map[string]string) {
	_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	t.Must(err, "create config map %s", name)
}

func createSecret(ctx context.Context, t *suite.T, name string, data map[string]string) {
	_, err := t.Client.CoreV1().Secrets(t.Namespace).Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	t.Must(err, "create secret %s", name)
}

func subPath(ctx context.Context, t *suite.T) {
	createConfigMap(ctx, t, "config", map[string]string{"a": "text of a\n", "b": "text of b\n"})
	p := t.Pod("partial", "write", "/part/file", "x", "then", "ls", "/whole", "/whole/inner", "then", "cat", "/etc/only")
	withVolume(p, emptyDir(), corev1.VolumeMount{MountPath: "/whole"})
	main := &p.Spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "volume", MountPath: "/part", SubPath: "inner"},
		corev1.VolumeMount{Name: "config", MountPath: "/etc/only", SubPath: "b"})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}})
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"inner/", "file", "text of b"}))
}

func subPathExpr(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("expanded", "write", "/part/file", "x", "then", "ls", "/whole"), emptyDir(),
		corev1.VolumeMount{MountPath: "/whole"})
	main := &p.Spec.Containers[0]
	main.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	main.VolumeMounts = append(main.VolumeMounts,
		corev1.VolumeMount{Name: "volume", MountPath: "/part", SubPathExpr: "dir-$(POD)"})
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"dir-expanded/"}))

	unset := p.DeepCopy()
	unset.Name, unset.Spec.Containers[0].Env = "unset", nil
	t.CreatePod(ctx, unset)
	waitsFor(ctx, t, "unset", "CreateContainerConfigError")
}

// waitsFor waits until the main container of a pod waits for a reason, and returns the message.
func waitsFor(ctx context.Context, t *suite.T, pod, reason string) string {
	p := suite.WaitFor(ctx, t, pod+" waiting for "+reason, t.GetPod(pod), Satisfy(func(p *corev1.Pod) bool {
		state := container(p, "main").State.Waiting
		return state != nil && state.Reason == reason
	}))
	return container(p, "main").State.Waiting.Message
}

func readOnlyMount(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("guarded", "write", "/rw/file", "x", "then", "write", "/ro/file", "y"), emptyDir(),
		corev1.VolumeMount{MountPath: "/rw"})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "volume", MountPath: "/ro", ReadOnly: true})
	t.CreatePod(ctx, p)
	ended(ctx, t, "guarded", corev1.PodFailed)
	t.Expect(log(ctx, t, "guarded", &corev1.PodLogOptions{})).To(And(ContainSubstring("/ro/file"),
		ContainSubstring("read-only file system")))
}

func recursiveReadOnly(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("deep", "sleep", "forever"), emptyDir(), corev1.VolumeMount{MountPath: "/ro", ReadOnly: true,
		RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyIfPossible)})
	t.CreatePod(ctx, p)
	done := running(ctx, t, "deep")
	node, err := nodeNamed(t, done.Spec.NodeName)(ctx)
	t.Must(err, "read the node")
	want := corev1.RecursiveReadOnlyDisabled
	for _, handler := range node.Status.RuntimeHandlers {
		if f := handler.Features; handler.Name == "" && f != nil && f.RecursiveReadOnlyMounts != nil &&
			*f.RecursiveReadOnlyMounts {
			want = corev1.RecursiveReadOnlyEnabled
		}
	}
	t.Expect(container(done, "main").VolumeMounts).To(ContainElement(And(HaveField("MountPath", "/ro"),
		HaveField("ReadOnly", BeTrue()), HaveField("RecursiveReadOnly", HaveValue(Equal(want))))))
}

func hostPathTypes(ctx context.Context, t *suite.T) {
	path := "/tmp/" + t.Namespace
	hostPath := func(path string, kind corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
	}
	maker := withVolume(t.Pod("maker", "stat", "/made", "then", "write", "/made/file", "kept\n"),
		hostPath(path, corev1.HostPathDirectoryOrCreate), corev1.VolumeMount{MountPath: "/made"})
	t.Expect(outputOf(ctx, t, maker)[0]).To(HavePrefix("/made dir 0755 0 0 "))
	made, err := t.GetPod("maker")(ctx)
	t.Must(err, "read the pod")
	t.Cleanup(func(ctx context.Context) { removeHostPath(ctx, t, made.Spec.NodeName, path) })
	reader := on(withVolume(t.Pod("reader", "cat", "/only"), hostPath(path+"/file", corev1.HostPathFile),
		corev1.VolumeMount{MountPath: "/only"}), made.Spec.NodeName)
	t.Expect(outputOf(ctx, t, reader)).To(Equal([]string{"kept"}))
	wrong := on(withVolume(t.Pod("wrong", "exit", "0"), hostPath(path+"/file", corev1.HostPathDirectory),
		corev1.VolumeMount{MountPath: "/dir"}), made.Spec.NodeName)
	t.CreatePod(ctx, wrong)
	suite.WaitFor(ctx, t, "an event of the mount", messagesOf(t, "wrong", "FailedMount"),
		ContainElement(ContainSubstring("hostPath type check failed")))
}

// removeHostPath removes a directory of a node with one file in it.
func removeHostPath(ctx context.Context, t *suite.T, node, path string) {
	kind := corev1.HostPathDirectory
	dir := path[:strings.LastIndex(path, "/")]
	p := withVolume(t.Pod("cleaner", "remove", "/host"+path[len(dir):]+"/file", "/host"+path[len(dir):]),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &kind}},
		corev1.VolumeMount{MountPath: "/host"})
	t.CreatePod(ctx, on(p, node))
	ended(ctx, t, "cleaner", corev1.PodSucceeded)
}

// big is more than the volumes of cases may hold; an argument takes no more.
var big = strings.Repeat("0123456789abcdef", 6000)

func emptyDirMemory(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("small", "write", "/volume/file", big),
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("64Ki"))}},
		corev1.VolumeMount{MountPath: "/volume"})
	t.CreatePod(ctx, p)
	ended(ctx, t, "small", corev1.PodFailed)
	t.Expect(log(ctx, t, "small", &corev1.PodLogOptions{})).To(ContainSubstring("no space left on device"))
}

func emptyDirLimit(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("grows", "write", "/volume/file", big, "then", "sleep", "forever"), corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("16Ki"))}},
		corev1.VolumeMount{MountPath: "/volume"})
	t.CreatePod(ctx, p)
	evicted := ended(ctx, t, "grows", corev1.PodFailed)
	t.Expect(evicted.Status.Reason).To(Equal("Evicted"))
	t.Expect(evicted.Status.Message).To(ContainSubstring("volume"))
}

func emptyDirFresh(ctx context.Context, t *suite.T) {
	p := withVolume(t.Pod("fresh", "ls", "/volume", "then", "write", "/volume/file", "x"), emptyDir(),
		corev1.VolumeMount{MountPath: "/volume"})
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{""}))
	remove(ctx, t, "fresh")
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "fresh"), BeTrue())
	t.Expect(outputOf(ctx, t, p.DeepCopy())).To(Equal([]string{""}))
}

// projection has a config map, a secret, the pod's labels and a token.
func projection() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o440),
		Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
				Items: []corev1.KeyToPath{{Key: "key", Path: "config/value", Mode: ptr.To[int32](0o400)}}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels",
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "example"}},
		}}}
}

func projectedAll(ctx context.Context, t *suite.T) {
	createConfigMap(ctx, t, "config", map[string]string{"key": "of the config map\n", "other": "x"})
	createSecret(ctx, t, "secret", map[string]string{"hidden": "of the secret\n"})
	p := withVolume(t.Pod("all", "ls", "/all", "/all/config", "then", "cat", "/all/config/value", "/all/hidden",
		"/all/labels", "then", "stat", "/all/config/value", "/all/hidden"), projection(),
		corev1.VolumeMount{MountPath: "/all"})
	lines := outputOf(ctx, t, p)
	text := strings.Join(lines, "\n")
	t.Expect(lines).To(ContainElements("hidden", "labels", "token", "value", "of the config map", "of the secret"))
	t.Expect(text).To(ContainSubstring(`app="all"`))
	t.Expect(text).To(MatchRegexp(`/all/config/value file 0400 `))
	t.Expect(text).To(MatchRegexp(`/all/hidden file 0440 `))
	t.Expect(lines).NotTo(ContainElement("other"), "it is none of the items")
}

func projectedUpdate(ctx context.Context, t *suite.T) {
	createConfigMap(ctx, t, "config", map[string]string{"key": "before"})
	createSecret(ctx, t, "secret", map[string]string{"hidden": "before"})
	t.CreatePod(ctx, withVolume(t.Pod("live", "sleep", "forever"), projection(), corev1.VolumeMount{MountPath: "/all"}))
	running(ctx, t, "live")
	core, patch := t.Client.CoreV1(), types.MergePatchType
	_, err := core.ConfigMaps(t.Namespace).Patch(ctx, "config", patch, []byte(`{"data":{"key":"after"}}`),
		metav1.PatchOptions{})
	t.Must(err, "change the config map")
	_, err = core.Secrets(t.Namespace).Patch(ctx, "secret", patch, []byte(`{"stringData":{"hidden":"after"}}`),
		metav1.PatchOptions{})
	t.Must(err, "change the secret")
	patchPod(ctx, t, "live", `{"metadata":{"labels":{"changed":"after"}}}`)
	t.Eventually(func() (string, error) {
		out, _, err := execute(ctx, t, "live", "", "testimage", "cat", "/all/config/value", "/all/hidden", "/all/labels")
		return out, err
	}).WithContext(ctx).WithTimeout(volumeDelay + volumeDelay/2).WithPolling(volumeDelay / 80).Should(And(
		HavePrefix("afterafter"), ContainSubstring(`changed="after"`)))
}

func optionalSources(ctx context.Context, t *suite.T) {
	missing := corev1.LocalObjectReference{Name: "missing"}
	p := withVolume(t.Pod("content", "ls", "/volume", "then", "echo", "started", "then", "env"), corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: missing, Optional: ptr.To(true)}},
		corev1.VolumeMount{MountPath: "/volume"})
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: missing, Optional: ptr.To(true)}}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: missing, Key: "k", Optional: ptr.To(true)}}}}
	lines := outputOf(ctx, t, p)
	t.Expect(lines).To(ContainElement("started"))
	t.Expect(lines).NotTo(ContainElement(HavePrefix("ABSENT=")))
}

func configItems(ctx context.Context, t *suite.T) {
	createConfigMap(ctx, t, "config", map[string]string{"a": "1", "b": "2"})
	p := withVolume(t.Pod("items", "ls", "/volume", "/volume/deep", "then", "stat", "/volume/deep/file"),
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
			Items:                []corev1.KeyToPath{{Key: "a", Path: "deep/file", Mode: ptr.To[int32](0o604)}}}},
		corev1.VolumeMount{MountPath: "/volume"})
	lines := outputOf(ctx, t, p)
	t.Expect(lines).To(ContainElement("file"))
	t.Expect(lines).NotTo(ContainElement("b"))
	t.Expect(lines[len(lines)-1]).To(HavePrefix("/volume/deep/file file 0604 "))
}

func downwardResources(ctx context.Context, t *suite.T) {
	p := t.Pod("informed", "env", "CPU", "MEMORY", "REQUEST", "NODE")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("24Mi")},
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"),
			corev1.ResourceMemory: resource.MustParse("48Mi")}}
	for name, field := range map[string][2]string{"CPU": {"limits.cpu", "1m"}, "MEMORY": {"limits.memory", "1Mi"},
		"REQUEST": {"requests.memory", "1"}, "NODE": {"limits.ephemeral-storage", "1"}} {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: field[0], Divisor: resource.MustParse(field[1])}}})
	}
	lines := outputOf(ctx, t, p)
	t.Expect(lines[:3]).To(Equal([]string{"250", "48", "25165824"}))
	done, err := t.GetPod("informed")(ctx)
	t.Must(err, "read the pod")
	node, err := nodeNamed(t, done.Spec.NodeName)(ctx)
	t.Must(err, "read the node")
	storage := node.Status.Allocatable[corev1.ResourceEphemeralStorage]
	t.Expect(lines[3]).To(Equal(resource.NewQuantity(storage.Value(), resource.DecimalSI).AsDec().String()))
}

func envFrom(ctx context.Context, t *suite.T) {
	createConfigMap(ctx, t, "config", map[string]string{"ONE": "1", "TWO": "2"})
	p := t.Pod("prefixed", "env", "P_ONE", "P_TWO")
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "P_TWO", Value: "mine"}}
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"1", "mine"}))
}

func envKeyMissing(ctx context.Context, t *suite.T) {
	createSecret(ctx, t, "secret", map[string]string{"other": "x"})
	p := t.Pod("keyless", "env", "VALUE")
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VALUE", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"},
			Key: "key"}}}}
	t.CreatePod(ctx, p)
	t.Expect(waitsFor(ctx, t, "keyless", "CreateContainerConfigError")).To(ContainSubstring("key"))
	_, err := t.Client.CoreV1().Secrets(t.Namespace).Patch(ctx, "secret", types.MergePatchType,
		[]byte(`{"stringData":{"key":"there"}}`), metav1.PatchOptions{})
	t.Must(err, "add the key")
	ended(ctx, t, "keyless", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "keyless", &corev1.PodLogOptions{})).To(Equal("there\n"))
}

func envExpansion(ctx context.Context, t *suite.T) {
	p := t.Pod("expanded")
	main := &p.Spec.Containers[0]
	main.Command = []string{"testimage", "echo", "$(WORD)"}
	main.Args = []string{"$(BOTH)", "$$(WORD)", "$(UNKNOWN)", "$(WORD"}
	main.Env = []corev1.EnvVar{{Name: "WORD", Value: "w"}, {Name: "BOTH", Value: "<$(WORD)$(LATER)>"},
		{Name: "LATER", Value: "l"}}
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"w <w$(LATER)> $(WORD) $(UNKNOWN) $(WORD"}))
}

func serviceVariables(ctx context.Context, t *suite.T) {
	service, err := t.Client.CoreV1().Services(t.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "my-service"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 8123}}},
	}, metav1.CreateOptions{})
	t.Must(err, "create the service")
	suite.WaitFor(ctx, t, "a pod that has the variables", func(ctx context.Context) (string, error) {
		p := t.Pod("", "env")
		p.GenerateName = "linked-" // the kubelet may know of the service a moment later
		created := t.CreatePod(ctx, p)
		ended(ctx, t, created.Name, corev1.PodSucceeded)
		return log(ctx, t, created.Name, &corev1.PodLogOptions{}), nil
	}, And(ContainSubstring("MY_SERVICE_SERVICE_HOST="+service.Spec.ClusterIP+"\n"),
		ContainSubstring("MY_SERVICE_SERVICE_PORT_WEB=8123\n")))
	p := t.Pod("unlinked", "env")
	p.Spec.EnableServiceLinks = ptr.To(false)
	lines := strings.Join(outputOf(ctx, t, p), "\n")
	t.Expect(lines).NotTo(ContainSubstring("MY_SERVICE"))
	t.Expect(lines).To(ContainSubstring("KUBERNETES_SERVICE_HOST="))
}
