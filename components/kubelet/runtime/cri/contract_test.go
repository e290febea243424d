package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime/runtimetest"
)

// endpointVariable leads to an engine that may be tested, in the same file system and namespaces as this process. Where
// it is not set, the test runs itself beside a containerd, in a container of the node image.
const endpointVariable = "QUINTET_TEST_CRI"

const (
	pauseImage, testImage, otherImage = "quintet/pause:dev", "quintet/testimage:dev", "quintet/coredns:dev"
	podRange                          = "10.252.0.0/24"
)

func TestContract(t *testing.T) {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		besideContainerd(t)
		return
	}
	dir := t.TempDir()
	e, err := New(t.Context(), Options{Endpoint: endpoint, Node: "contract", LogDir: filepath.Join(dir, "logs"),
		ProfileDir: filepath.Join(dir, "profiles"), CgroupDriver: "cgroupfs"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	runtimetest.Run(t, runtimetest.Subject{Engine: e, PauseImage: pauseImage, Image: testImage,
		Sleep: []string{"sleep", "forever"}, PodCIDRs: []string{podRange}, Spare: [2]string{otherImage, "spare:too"},
		Program: runtimetest.Program{Image: testImage, Path: "/usr/local/bin/testimage"}})
}

// nodeImage has containerd, the plug-ins of its network and the images.
func nodeImage() string {
	if image := os.Getenv("QUINTET_TEST_NODE_IMAGE"); image != "" {
		return image
	}
	return "quintet/node:dev"
}

// tooOld is the exit code of script in an image that has no plug-ins of CNI.
const tooOld = 77

// script starts containerd and runs the test beside it. Mounts are made fit for an engine first, and control groups of
// version 2 handed down.
const script = `set -e
test -x /usr/lib/cni/bridge || exit 77
mount --make-rshared /
mount -o remount,rw,bind /sys/fs/cgroup
for dir in /sys/fs/cgroup/*; do [ -L "$dir" ] || mount -o remount,rw,bind "$dir" 2>/dev/null || true; done
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p /sys/fs/cgroup/init
  while read -r pid; do echo "$pid" >/sys/fs/cgroup/init/cgroup.procs || true; done </sys/fs/cgroup/cgroup.procs
  for c in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control; done
fi
mkdir -p /etc/containerd
cat >/etc/containerd/net.template <<'END'
{"cniVersion": "1.0.0", "name": "contract", "plugins": [{"type": "bridge", "bridge": "cbr0", "isGateway": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "{{.PodCIDR}}"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >/etc/containerd/config.toml <<'END'
version = 2
root = "/var/lib/docker/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "quintet/pause:dev"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_template = "/etc/containerd/net.template"
END
containerd >/var/log/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
for image in /var/lib/quintet/images/*.tar; do ctr --namespace k8s.io images import "$image" >/dev/null; done
ctr --namespace k8s.io images tag docker.io/quintet/coredns:dev docker.io/library/spare:too >/dev/null
code=0
"$@" || code=$?
[ $code = 0 ] || tail -n 40 /var/log/containerd.log
exit $code
`

// privileges are enough for an engine, and are given where privileged containers are not.
var privileges = []string{"--cap-add=ALL", "--cap-drop=SYS_RESOURCE", "--security-opt=seccomp=unconfined",
	"--security-opt=apparmor=unconfined", "--security-opt=systempaths=unconfined", "--device-cgroup-rule=a *:* rwm",
	"--tmpfs=/run:exec", "--tmpfs=/tmp:exec"}

// besideContainerd runs this test in a container that has a containerd.
func besideContainerd(t *testing.T) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "docker", "image", "inspect",
		nodeImage()).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: %s", err, output)
		}
		t.Skipf("no Docker with the image %s (make images): %s", nodeImage(), bytes.TrimSpace(output))
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("quintet-cri-test-%d", os.Getpid())
	t.Cleanup(func() {
		_ = exec.CommandContext(context.Background(), "docker", "rm", "--force", "--volumes", name).Run()
	})
	arguments := append([]string{"create", "--name", name,
		"--env", endpointVariable + "=unix:///run/containerd/containerd.sock", "--entrypoint", "/bin/sh"}, privileges...)
	arguments = append(arguments, nodeImage(), "-c", script, "sh", "/contract.test", "-test.run=^TestContract$", "-test.v")
	if output, err := exec.CommandContext(t.Context(), "docker", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if output, err := exec.CommandContext(t.Context(), "docker", "cp", program, name+":/contract.test").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	output, err := exec.CommandContext(t.Context(), "docker", "start", "--attach", name).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == tooOld && os.Getenv("CI") != "true" {
		t.Skipf("the image %s has no plug-ins of CNI (make images)", nodeImage())
	}
	if err != nil || !strings.Contains(string(output), "--- PASS: TestContract") {
		t.Errorf("%v\n%s", err, output)
	} else {
		t.Logf("%s", output)
	}
}
