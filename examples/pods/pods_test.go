// Package pods tests an operator as its users run it: from its image and manifests, on real nodes.
package pods

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/tests/runner"
	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/why"
)

const image = "example.com/runner:test"

// TestRunner: the operator has the rights that it needs, and the pods that it asks for run.
func TestRunner(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Docker")
	}
	buildImage(t)
	c, err := cluster.Start(t.Context(), cluster.WithNodes(2), cluster.WithLoadedImages(image),
		cluster.WithManifests("../runner/operator.yaml"),
		cluster.WithProgress(func(e cluster.Event) {
			if e.Done || e.Notice != "" {
				t.Log(e.Step, e.Took, e.Notice)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	api, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	asked := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{runner.Label: ""}},
		Data:       map[string]string{"image": "quintet/testimage:dev", "command": "testimage serve"}, // nodes have it
	}
	if err := api.Create(ctx, asked); err != nil {
		t.Fatal(err)
	}
	for namespace, name := range map[string]string{"kube-system": "runner", "default": "web"} {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := why.WaitReady(ctx, api, deployment); err != nil {
			t.Fatal(err) // says why it is not ready
		}
	}
}

// buildImage builds the operator's program for Linux, and its image of that file alone.
func buildImage(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "manager"), "../runner/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	for _, cmd := range []*exec.Cmd{build, exec.Command("docker", "build", "--quiet", "--tag", image,
		"--file", "../runner/Dockerfile", dir)} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", image).Run() })
}
