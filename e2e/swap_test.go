package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"quintet.dev/quintet/cluster"
)

// otherScheduler builds an image that is not ours by its make: the same program behind another entry point and label.
func otherScheduler(t *testing.T) string {
	t.Helper()
	const ref = "quintet-e2e/other-scheduler:test"
	dir := t.TempDir()
	dockerfile := "FROM quintet/kube-scheduler:dev\nLABEL quintet.owner=ci other=true\nENV OTHER=true\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	docker(t, "build", "--quiet", "--tag", ref, dir)
	t.Cleanup(func() { docker(t, "image", "rm", "--force", ref) })
	return ref
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestComponentFromAnotherImage(t *testing.T) {
	ref := otherScheduler(t)
	w := start(t, cluster.WithNodes(1), cluster.WithImage(cluster.Scheduler, ref))
	w.Expect(docker(t, "inspect", "--format", "{{.Config.Image}}", w.Name()+"-scheduler-0")).To(ContainSubstring(ref))
	w.createPod("placed")
	w.waitReady("placed", 1)
}

// A component can also be a Go value of the test: here a scheduler of twenty lines with one rule.
func TestComponentFromTheTestItself(t *testing.T) {
	w := start(t, cluster.WithNodes(2), cluster.Without(cluster.Scheduler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.placeOnLast(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	w.createDeployment("placed", 3)
	for _, p := range w.waitReady("placed", 3) {
		w.Expect(p.Spec.NodeName).To(Equal(w.nodeName(w.Node(2).Name())))
	}
}

func (w *world) placeOnLast(ctx context.Context) {
	node := w.nodeName(w.Node(2).Name())
	pending, err := w.client.CoreV1().Pods(space).Watch(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "").String()})
	if err != nil {
		w.t.Errorf("watch pending pods: %v", err)
		return
	}
	defer pending.Stop()
	for event := range pending.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type != watch.Added {
			continue
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
			Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := w.client.CoreV1().Pods(space).Bind(ctx, binding, metav1.CreateOptions{}); err != nil &&
			ctx.Err() == nil {
			w.t.Errorf("bind %s: %v", p.Name, err)
		}
	}
}
