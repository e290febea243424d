package docker

import (
	"os"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestAddedVariables(t *testing.T) {
	got := added([]string{"A=1", "EMPTY="},
		[]string{"PATH=/bin", "A=2", "EMPTY=", "DEVICE=gpu-0", "HOSTNAME=x", "", "WITH==="})
	if want := []string{"DEVICE=gpu-0", "WITH==="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHasCDI(t *testing.T) {
	if hasCDI(&container.HostConfig{Resources: container.Resources{
		DeviceRequests: []container.DeviceRequest{{Driver: "nvidia"}}}}) {
		t.Error("devices of another kind")
	}
	if !hasCDI((&Engine{}).hostConfig(&runtime.ContainerSpec{CDI: []string{"example.com/gpu=0"}})) {
		t.Error("no CDI device found in what a container with one is made from")
	}
}

// TestProcessEnv: a number that means a process of another container, or none, is refused or nothing.
func TestProcessEnv(t *testing.T) {
	path := "PATH=" + os.Getenv("PATH")
	if env, err := processEnv(os.Getpid(), ""); err != nil || !slices.Contains(env, path) {
		t.Errorf("own variables: %q, %v", env, err)
	}
	if env, err := processEnv(os.Getpid(), "no-such-container"); err == nil {
		t.Errorf("another's variables: %q", env)
	}
	if env, err := processEnv(1<<30, "x"); err != nil || env != nil {
		t.Errorf("those of no process: %q, %v", env, err)
	}
}
