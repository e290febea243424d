package cri

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestTranslate(t *testing.T) {
	start, end := time.Unix(10, 5), time.Unix(20, 0)
	base := func(change func(*cri.ContainerStatus)) *cri.ContainerStatus {
		in := &cri.ContainerStatus{Id: "id", Metadata: &cri.ContainerMetadata{Name: "c", Attempt: 3},
			CreatedAt: 1, ImageRef: "repo@sha256:d", ImageId: "sha256:i",
			Annotations: map[string]string{noteHash: "h", noteImage: "asked", noteMemoryRequest: "7", noteMessageFile: "m"}}
		change(in)
		return in
	}
	for name, tc := range map[string]struct {
		in   *cri.ContainerStatus
		want func(c runtime.Container) bool
	}{
		"created": {base(func(in *cri.ContainerStatus) { in.State = cri.ContainerState_CONTAINER_CREATED }),
			func(c runtime.Container) bool {
				return c.State == runtime.Created && c.Started.IsZero() && c.Hash == "h" && c.Image == "asked" &&
					c.ImageID == "sha256:i" && c.ImageRef == "repo@sha256:d" && c.MemoryRequest == 7 && c.MessageFile == "m" &&
					c.Name == "c" && c.Attempt == 3 && c.SandboxID == "sandbox"
			}},
		"running": {base(func(in *cri.ContainerStatus) {
			in.State, in.StartedAt = cri.ContainerState_CONTAINER_RUNNING, start.UnixNano()
			in.User = &cri.ContainerUser{Linux: &cri.LinuxContainerUser{Uid: 1, Gid: 2, SupplementalGroups: []int64{3}}}
			in.Resources = &cri.ContainerResources{Linux: &cri.LinuxContainerResources{CpuShares: 4, MemoryLimitInBytes: 5}}
		}), func(c runtime.Container) bool {
			return c.State == runtime.Running && c.Started.Equal(start) && c.User == "1:2,3" && c.CPUShares == 4 &&
				c.MemoryBytes == 5
		}},
		"ended": {base(func(in *cri.ContainerStatus) {
			in.State, in.StartedAt, in.FinishedAt = cri.ContainerState_CONTAINER_EXITED, start.UnixNano(), end.UnixNano()
			in.ExitCode, in.Reason = 137, "OOMKilled"
		}), func(c runtime.Container) bool {
			return c.State == runtime.Exited && c.Finished.Equal(end) && c.ExitCode == 137 && c.OOMKilled && c.StartErr == ""
		}},
		"not started": {base(func(in *cri.ContainerStatus) {
			in.State, in.ExitCode, in.Message = cri.ContainerState_CONTAINER_EXITED, 128, "no such file"
		}), func(c runtime.Container) bool {
			return c.State == runtime.Exited && c.StartErr == "no such file" && c.ExitCode == 128
		}},
	} {
		if got := translate(tc.in, "sandbox"); !tc.want(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMayBeOOM(t *testing.T) {
	limited := &cri.ContainerResources{Linux: &cri.LinuxContainerResources{MemoryLimitInBytes: 1}}
	exited := cri.ContainerState_CONTAINER_EXITED
	for want, all := range map[bool][]*cri.ContainerStatus{
		true: {{State: exited, ExitCode: 137, Resources: limited}},
		false: {{State: exited, ExitCode: 137}, {State: exited, ExitCode: 1, Resources: limited},
			{State: exited, ExitCode: 137, Reason: reasonOOM, Resources: limited}},
	} {
		for _, in := range all {
			if got := mayBeOOM(in); got != want {
				t.Errorf("%+v: %v", in, got)
			}
		}
	}
}

func TestChanged(t *testing.T) {
	before := map[string]seen{"same": {"a", 1}, "other state": {"b", 1}, "gone": {"c", 1}}
	now := map[string]seen{"same": {"a", 1}, "other state": {"b", 2}, "new": {"d", 0}}
	got := slices.Sorted(maps.Keys(changed(before, now)))
	if !slices.Equal(got, []types.UID{"b", "c", "d"}) {
		t.Errorf("changed: %v", got)
	}
	if same := changed(now, now); len(same) > 0 {
		t.Errorf("nothing changed, but %v", same)
	}
}

func TestErrorsHaveTheirMeaning(t *testing.T) {
	if err := mark(status.Error(codes.NotFound, "no such container")); !errors.Is(err, runtime.ErrNotFound) {
		t.Error(err)
	}
	if err := mark(status.Error(codes.Unknown, "it broke")); err == nil || err.Error() != "it broke" {
		t.Error(err)
	}
	if err := mark(nil); err != nil {
		t.Error(err)
	}
}

func TestConditions(t *testing.T) {
	told := &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Reason: "NoPlugin", Message: "cni"}}}
	if err := condition(told, cri.RuntimeReady); err != nil {
		t.Error(err)
	}
	if err := condition(told, cri.NetworkReady); err == nil {
		t.Error("a network that isn't ready passes")
	}
}

func TestAddresses(t *testing.T) {
	sandbox := &cri.PodSandboxStatus{Network: &cri.PodSandboxNetworkStatus{Ip: "10.0.0.2",
		AdditionalIps: []*cri.PodIP{{Ip: "fd00::2"}}}}
	if got := addresses(sandbox); !slices.Equal(got, []string{"10.0.0.2", "fd00::2"}) {
		t.Errorf("%v", got)
	}
	sandbox.Linux = &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
		Options: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}}
	if got := addresses(sandbox); got != nil {
		t.Errorf("on the machine's network: %v", got)
	}
}
