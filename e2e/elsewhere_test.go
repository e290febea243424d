package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/images"
)

// elsewhere is the prefix of images that no other test has built.
const elsewhere = "quintet-e2e-elsewhere"

// TestElsewhere: a test in a module of the user's, in a folder of its own, starts a cluster of real nodes on an engine
// that has none of its images but the nodes' base.
func TestElsewhere(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	if err := os.CopyFS(module, os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	run(t, module, "go", "mod", "edit", "-replace", images.Module+"="+root)
	freshImages(t)
	out := run(t, module, "go", "test", "-count=1", "-v", "./pods")
	if !strings.Contains(out, "built image "+elsewhere+"/node:") {
		t.Errorf("the test built no image:\n%s", out)
	}
	names := ownNames(t)
	for _, want := range []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "node"} {
		if !slices.Contains(names, want) {
			t.Errorf("no image %s among %v", want, names)
		}
	}
	if slices.Contains(names, "registry") {
		t.Errorf("images that the cluster has no use for were built: %v", names)
	}
}

// TestProgramElsewhere: the program by itself, in an empty folder, builds images of the source that it is told.
func TestProgramElsewhere(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, root, "go", "build", "-trimpath", "-o", filepath.Join(dir, "quintet"), "./cmd/quintet")
	freshImages(t)
	lost := exec.Command("./quintet", "images", "build", "pause")
	lost.Dir = dir
	if out, err := lost.CombinedOutput(); err == nil || !strings.Contains(string(out), "set "+images.EnvSource) {
		t.Errorf("without a source: %v\n%s", err, out)
	}
	t.Setenv(images.EnvSource, root)
	if out := run(t, dir, "./quintet", "images", "build", "pause"); !strings.Contains(out, elsewhere+"/pause:") {
		t.Errorf("no image:\n%s", out)
	}
}

// freshImages has images get names under which there are none but the nodes' base, until the test ends.
func freshImages(t *testing.T) {
	t.Helper()
	t.Setenv(images.EnvPrefix, elsewhere)
	for _, image := range allImages(t) {
		if image.Name == "node-base" {
			docker(t, "tag", image.Ref, elsewhere+"/node-base:"+image.Tag)
		}
	}
	t.Cleanup(func() {
		for _, image := range allImages(t) {
			if strings.HasPrefix(image.Ref, elsewhere+"/") {
				docker(t, "image", "rm", "--force", image.Ref)
			}
		}
	})
}

func allImages(t *testing.T) []images.Image {
	t.Helper()
	all, err := cluster.Images(context.Background()) // also when the test has ended
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ownNames are the names of images under the fresh prefix.
func ownNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, image := range allImages(t) {
		if strings.HasPrefix(image.Ref, elsewhere+"/") {
			names = append(names, image.Name)
		}
	}
	return names
}

// run runs a command in a folder and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}
