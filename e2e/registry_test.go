package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/cluster"
)

// buildVariant makes an image of the local engine that differs from the test image, and is removed with the test.
func (w *world) buildVariant(ref, content string) {
	w.t.Helper()
	build := exec.CommandContext(w.t.Context(), "docker", "build", "--quiet", "--tag", ref, "-")
	build.Stdin = strings.NewReader(fmt.Sprintf("FROM %s\nLABEL content=%s\n", testImage, content))
	output, err := build.CombinedOutput()
	w.must(err, "build %s: %s", ref, output)
}

// createPullSecret makes a secret for the registry with a password.
func (w *world) createPullSecret(name, password string) {
	w.t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		cluster.RegistryHost: map[string]string{"username": "me", "password": password}}})
	w.must(err, "encode")
	_, err = w.client.CoreV1().Secrets(space).Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}, metav1.CreateOptions{})
	w.must(err, "create secret %s", name)
}

// createPodOf makes a pod of an image, with a pull secret if there is one.
func (w *world) createPodOf(name, image, secret string, policy corev1.PullPolicy) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Spec: podSpec()}
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, policy
	if secret != "" {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	}
	_, err := w.client.CoreV1().Pods(space).Create(w.t.Context(), pod, metav1.CreateOptions{})
	w.must(err, "create pod %s", name)
}

// waiting returns a function that tells why the first container of an app waits.
func (w *world) waiting(app string) func() (string, error) {
	return func() (string, error) {
		pods, err := w.pods(app)()
		if err != nil || len(pods) == 0 || len(pods[0].Status.ContainerStatuses) == 0 {
			return "", err
		}
		if why := pods[0].Status.ContainerStatuses[0].State.Waiting; why != nil {
			return why.Reason + ": " + why.Message, nil
		}
		return "", nil
	}
}

// imageID is what the only pod of an app runs.
func (w *world) imageID(app string) string {
	w.t.Helper()
	return w.waitReady(app, 1)[0].Status.ContainerStatuses[0].ImageID
}

// Nodes pull from the cluster's registry by tag and by digest; who has no right to an image does not get it, even from
// the node; a push shows at the next pull; and a registry that was down is found up again.
func TestNodesPullFromTheRegistry(t *testing.T) {
	w := start(t, cluster.WithRegistryUser("me", "pass"), cluster.WithoutDNS())
	local := "quintet-e2e-registry-" + w.Name() + ":1"
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", local).Run() })
	w.buildVariant(local, "first")
	first, err := w.PushImage(t.Context(), local)
	w.must(err, "push")
	w.Expect(w.RegistryImages(t.Context())).To(Equal([]string{first.Reference}))
	w.createPullSecret("right", "pass")
	w.createPullSecret("wrong", "other")

	w.createPodOf("by-tag", first.Reference, "right", corev1.PullIfNotPresent)
	w.createPodOf("by-digest", first.ByDigest(), "right", corev1.PullIfNotPresent)
	w.Expect(w.imageID("by-tag")).To(Equal(w.imageID("by-digest")))

	for _, secret := range []string{"wrong", ""} {
		name := "refused-" + secret + "x"
		w.createPodOf(name, first.Reference, secret, corev1.PullIfNotPresent)
		w.Eventually(w.waiting(name)).Should(HavePrefix(`ImagePullBackOff: Back-off pulling image "`+first.Reference+
			`": ErrImagePull: failed to pull image`), name)
		w.Eventually(func() (string, error) { return w.eventsOf(name) }).Should(And(
			ContainSubstring("Failed Failed to pull image"), ContainSubstring("Failed Error: ErrImagePull"),
			ContainSubstring("BackOff Back-off pulling image")), name)
	}

	w.buildVariant(local, "second")
	second, err := w.PushImage(t.Context(), local)
	w.must(err, "push again")
	w.Expect(second.Digest).NotTo(Equal(first.Digest))
	w.createPodOf("always", second.Reference, "right", corev1.PullAlways)
	w.Expect(w.imageID("always")).NotTo(Equal(w.imageID("by-tag")))

	w.must(w.Component(cluster.Registry).Stop(t.Context()), "stop the registry")
	w.createPodOf("later", second.Reference, "right", corev1.PullAlways)
	w.Eventually(w.waiting("later")).Should(HavePrefix("ImagePullBackOff: "))
	w.must(w.Component(cluster.Registry).Start(t.Context()), "start the registry")
	w.Expect(w.imageID("later")).To(Equal(w.imageID("always")))
}

// eventsOf lists the events of a pod, one a line.
func (w *world) eventsOf(pod string) (string, error) {
	list, err := w.client.CoreV1().Events(space).List(w.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for i := range list.Items {
		fmt.Fprintf(&lines, "%s %s\n", list.Items[i].Reason, list.Items[i].Message)
	}
	return lines.String(), nil
}
