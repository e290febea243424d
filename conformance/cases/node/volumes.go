package node

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func port(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

func configure(ctx context.Context, t *suite.T) {
	_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"COLOR": "blue", "SIZE": "9"}},
		metav1.CreateOptions{})
	t.Must(err, "create the config map")
	_, err = t.Client.CoreV1().Secrets(t.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string][]byte{"password": []byte("hidden")}},
		metav1.CreateOptions{})
	t.Must(err, "create the secret")
}

func environmentCase(ctx context.Context, t *suite.T) {
	configure(ctx, t)
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	p := t.Pod("env", "env", "PLAIN", "EXPANDED", "KEPT", "SIZE", "COLOR", "PASSWORD", "NAME", "SPACE", "ABSENT_OK")
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
	}
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "PLAIN", Value: "plain"},
		{Name: "EXPANDED", Value: "<$(PLAIN)>"},
		{Name: "KEPT", Value: "$(UNKNOWN) $$(PLAIN)"},
		{
			Name: "SIZE",
			ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
					Key:                  "SIZE",
				},
			},
		},
		{
			Name: "PASSWORD",
			ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "secret"},
					Key:                  "password",
				},
			},
		},
		{Name: "NAME", ValueFrom: field("metadata.name")},
		{Name: "SPACE", ValueFrom: field("metadata.namespace")},
		{Name: "ABSENT_OK", Value: ""},
	}
	t.Expect(outputOf(ctx, t, p)).To(HaveExactElements("plain", "<plain>", "$(UNKNOWN) $(PLAIN)", "9", "blue", "hidden",
		"env", t.Namespace))
}

func volumes(ctx context.Context, t *suite.T) {
	configure(ctx, t)
	p := t.Pod("volumes", "wait", "/shared/ready", "then", "cat", "/shared/ready", "/config/COLOR", "/renamed/tint",
		"/secret/password", "/pod/labels",
		"then", "echo", "", "then", "stat", "/secret/..data/password", "/scratch")
	p.Spec.Containers = append(p.Spec.Containers,
		corev1.Container{Name: "writer", Image: t.Image, Args: []string{"write", "/shared/ready", "written\n"}})
	shared(p, "/shared")
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, source := range map[string]corev1.VolumeSource{
		"config": {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("config")}},
		"renamed": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: local("config"), Items: []corev1.KeyToPath{{Key: "COLOR", Path: "tint"}}}}}}},
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: ptr.To[int32](0o400)}},
		"pod": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
		"scratch": {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
	} {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	lines := outputOf(ctx, t, p)
	t.Expect(lines).To(HaveExactElements("written", `bluebluehiddenapp="volumes"`,
		HavePrefix("/secret/..data/password file 0400"), HavePrefix("/scratch dir 1777")))
}

func volumeUpdate(ctx context.Context, t *suite.T) {
	configure(ctx, t)
	p := server(t, "watching")
	p.Spec.Volumes = []corev1.Volume{{Name: "config",
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	t.CreatePod(ctx, p)
	running(ctx, t, "watching")
	_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Patch(ctx, "config", types.MergePatchType,
		[]byte(`{"data":{"COLOR":"red","SIZE":"10"}}`), metav1.PatchOptions{})
	t.Must(err, "change the config map")
	// Kubelets may take their sync period and the delay of their cache, together up to two minutes, and one with a
	// changed annotation less: https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/.
	read := func(ctx context.Context) (string, error) {
		out, _, err := execute(ctx, t, "watching", "", "testimage", "cat", "/config/..data/COLOR",
			"/config/..data/SIZE")
		return out, err
	}
	t.Eventually(read).WithContext(ctx).WithTimeout(volumeDelay).WithPolling(volumeDelay / 200).Should(Equal("red10"))
}

func missingConfig(ctx context.Context, t *suite.T) {
	p := t.Pod("waiting", "cat", "/config/COLOR")
	p.Spec.Volumes = []corev1.Volume{{Name: "config",
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	t.CreatePod(ctx, p)
	events := func(ctx context.Context) ([]corev1.Event, error) {
		list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=waiting,reason=FailedMount"})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	found := suite.WaitFor(ctx, t, "an event that says why", events, Not(BeEmpty()))
	t.Expect(found[0].Message).To(ContainSubstring(`"config" not found`))
	configure(ctx, t)
	ended(ctx, t, "waiting", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "waiting", &corev1.PodLogOptions{})).To(Equal("blue"))
}

func serviceAccountToken(ctx context.Context, t *suite.T) {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	p := t.Pod("identified", "cat", dir+"/namespace", "then", "echo", "", "then", "cat", dir+"/ca.crt", "then", "stat",
		dir+"/token")
	p.Spec.AutomountServiceAccountToken = ptr.To(true)
	lines := outputOf(ctx, t, p)
	t.Expect(lines[0]).To(Equal(t.Namespace))
	t.Expect(lines[1]).To(ContainSubstring("BEGIN CERTIFICATE"))

	user := server(t, "holder")
	user.Spec.AutomountServiceAccountToken = ptr.To(true)
	t.CreatePod(ctx, user)
	running(ctx, t, "holder")
	held, _, err := execute(ctx, t, "holder", "", "testimage", "cat", dir+"/token")
	t.Must(err, "read the token")
	t.Expect(whoIs(ctx, t, held)).To(Equal("system:serviceaccount:" + t.Namespace + ":default"))
}
