package cri

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestContainerConfig(t *testing.T) {
	pod := runtime.PodRef{UID: "u", Namespace: "ns", Name: "p"}
	for name, tc := range map[string]struct {
		spec  runtime.ContainerSpec
		holds func(c *cri.ContainerConfig) bool
	}{
		"names": {runtime.ContainerSpec{Pod: pod, Name: "c", Attempt: 2, Image: "asked", ImageID: "sha256:1", Hash: "h"},
			func(c *cri.ContainerConfig) bool {
				return c.Metadata.Name == "c" && c.Metadata.Attempt == 2 && c.Image.Image == "sha256:1" &&
					c.Annotations[noteHash] == "h" && c.Annotations[noteImage] == "asked" && c.LogPath == "c/2.log" &&
					c.Labels[labelPodUID] == "u" && c.Labels[labelContainer] == "c" && c.Labels[labelNode] == "node"
			}},
		"environment": {runtime.ContainerSpec{Env: []string{"A=b=c", "EMPTY="}}, func(c *cri.ContainerConfig) bool {
			return len(c.Envs) == 2 && c.Envs[0].Key == "A" && string(c.Envs[0].Value) == "b=c" && len(c.Envs[1].Value) == 0
		}},
		"mounts": {runtime.ContainerSpec{Mounts: []runtime.Mount{
			{Source: "/a", Target: "/b", ReadOnly: true, RecursiveReadOnly: true},
			{Source: "/c", Target: "/d", Propagation: "rshared"}, {Source: "/e", Target: "/f", Propagation: "rslave"}}},
			func(c *cri.ContainerConfig) bool {
				return c.Mounts[0].HostPath == "/a" && c.Mounts[0].ContainerPath == "/b" && c.Mounts[0].Readonly &&
					c.Mounts[0].RecursiveReadOnly && c.Mounts[0].Propagation == cri.MountPropagation_PROPAGATION_PRIVATE &&
					c.Mounts[1].Propagation == cri.MountPropagation_PROPAGATION_BIDIRECTIONAL && !c.Mounts[1].Readonly &&
					c.Mounts[2].Propagation == cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
			}},
		"devices": {runtime.ContainerSpec{Devices: []runtime.Device{{Source: "/dev/a", Target: "/dev/b"},
			{ReadOnly: true}, {Permissions: "r"}}, CDI: []string{"v/c=d"}}, func(c *cri.ContainerConfig) bool {
			return c.Devices[0].Permissions == "mrw" && c.Devices[0].HostPath == "/dev/a" &&
				c.Devices[1].Permissions == "mr" && c.Devices[2].Permissions == "r" && c.CDIDevices[0].Name == "v/c=d"
		}},
		"resources": {runtime.ContainerSpec{Resources: runtime.Resources{CPUShares: 2, CPUQuota: 3, CPUPeriod: 4,
			MemoryBytes: 5}, OOMScoreAdjust: -9, PidsLimit: 7, MemoryRequest: 3}, func(c *cri.ContainerConfig) bool {
			r := c.Linux.Resources
			return r.CpuShares == 2 && r.CpuQuota == 3 && r.CpuPeriod == 4 && r.MemoryLimitInBytes == 5 &&
				r.MemorySwapLimitInBytes == 5 && r.OomScoreAdj == -9 && r.Unified["pids.max"] == "7" &&
				c.Annotations[noteMemoryRequest] == "3"
		}},
		"stop signal": {runtime.ContainerSpec{StopSignal: "SIGRTMIN+3"}, func(c *cri.ContainerConfig) bool {
			return c.StopSignal == cri.Signal_SIGRTMINPLUS3
		}},
		"user and groups": {runtime.ContainerSpec{User: "1:2", Groups: []string{"3", "4"}},
			func(c *cri.ContainerConfig) bool {
				s := c.Linux.SecurityContext
				return s.RunAsUser.Value == 1 && s.RunAsGroup.Value == 2 && slices.Equal(s.SupplementalGroups, []int64{3, 4})
			}},
		"the image's user with a group": {runtime.ContainerSpec{User: "www:2"}, func(c *cri.ContainerConfig) bool {
			s := c.Linux.SecurityContext
			return s.RunAsUser == nil && s.RunAsUsername == "www" && s.RunAsGroup.Value == 2
		}},
		"the image's user": {runtime.ContainerSpec{}, func(c *cri.ContainerConfig) bool {
			s := c.Linux.SecurityContext
			return s.RunAsUser == nil && s.RunAsUsername == "" && s.RunAsGroup == nil
		}},
		"namespaces": {runtime.ContainerSpec{HostNetwork: true, TargetPID: "t"}, func(c *cri.ContainerConfig) bool {
			o := c.Linux.SecurityContext.NamespaceOptions
			return o.Network == cri.NamespaceMode_NODE && o.Pid == cri.NamespaceMode_TARGET && o.TargetId == "t"
		}},
		"a shared process namespace": {runtime.ContainerSpec{SharePID: true}, func(c *cri.ContainerConfig) bool {
			return c.Linux.SecurityContext.NamespaceOptions.Pid == cri.NamespaceMode_POD
		}},
		"masked paths": {runtime.ContainerSpec{}, func(c *cri.ContainerConfig) bool {
			return slices.Contains(c.Linux.SecurityContext.MaskedPaths, "/proc/kcore") &&
				slices.Contains(c.Linux.SecurityContext.ReadonlyPaths, "/proc/sys")
		}},
		"all of proc": {runtime.ContainerSpec{UnmaskedProc: true}, func(c *cri.ContainerConfig) bool {
			return len(c.Linux.SecurityContext.MaskedPaths)+len(c.Linux.SecurityContext.ReadonlyPaths) == 0
		}},
		"SELinux and AppArmor": {runtime.ContainerSpec{SELinux: []string{"user:u", "role:r", "type:t", "level:s0:c1"},
			AppArmor: "mine"}, func(c *cri.ContainerConfig) bool {
			s := c.Linux.SecurityContext
			return s.SelinuxOptions.User == "u" && s.SelinuxOptions.Role == "r" && s.SelinuxOptions.Type == "t" &&
				s.SelinuxOptions.Level == "s0:c1" && s.Apparmor.LocalhostRef == "mine"
		}},
	} {
		config, err := containerConfig(&tc.spec, "node", "2")
		if err != nil || !tc.holds(config) {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
	}
}

func TestWhatCantBe(t *testing.T) {
	for want, spec := range map[string]runtime.ContainerSpec{
		"7 processes": {PidsLimit: 7}, "SIGWHAT": {StopSignal: "SIGWHAT"}, "wheel": {Groups: []string{"wheel"}},
		"staff": {User: "1:staff"},
	} {
		if _, err := containerConfig(&spec, "node", "1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestSandboxConfig(t *testing.T) {
	spec := &runtime.SandboxSpec{Pod: runtime.PodRef{UID: "u", Namespace: "ns", Name: "p"}, Attempt: 1, Hostname: "h",
		CgroupParent: "/kubepods/pod", Ports: []v1.ContainerPort{{HostPort: 80, ContainerPort: 8080}},
		Labels:      map[string]string{"a": "b", labelPodUID: "other"},
		Annotations: map[string]string{"c": "d", noteHostPorts: "[]"}}
	config, err := sandboxConfig(spec, "node", "/logs")
	if err != nil {
		t.Fatal(err)
	}
	if config.Hostname != "h" || config.LogDirectory != "/logs/ns_p_u" || config.Labels[labelPodUID] != "u" ||
		config.Labels["a"] != "b" || config.Annotations["c"] != "d" || config.Metadata.Attempt != 1 {
		t.Errorf("%+v", config)
	}
	if ports := portsOf(config.Annotations); len(ports) != 1 || ports[0].HostPort != 80 {
		t.Errorf("ports: %+v", ports)
	}
	// What the engine tells of it later is enough to make its containers.
	told := &cri.PodSandboxStatus{Metadata: config.Metadata, Labels: config.Labels, Annotations: config.Annotations,
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: config.Linux.SecurityContext.NamespaceOptions}}}
	if later := again(told, "/kubepods/pod", "/logs"); later.Hostname != "h" ||
		later.LogDirectory != config.LogDirectory ||
		later.Linux.CgroupParent != config.Linux.CgroupParent {
		t.Errorf("again: %+v", later)
	}
	spec.HostNetwork, spec.HostIPC, spec.HostPID, spec.Privileged = true, true, true, true
	if config, err = sandboxConfig(spec, "node", "/logs"); err != nil {
		t.Fatal(err)
	}
	security := config.Linux.SecurityContext
	if o := security.NamespaceOptions; config.Hostname != "" || len(portsOf(config.Annotations)) > 0 ||
		o.Network != cri.NamespaceMode_NODE || o.Ipc != cri.NamespaceMode_NODE || o.Pid != cri.NamespaceMode_NODE ||
		!security.Privileged {
		t.Errorf("on the machine's network: %+v", config)
	}
}

func TestSeccompProfilesAreFiles(t *testing.T) {
	e := &Engine{options: Options{ProfileDir: filepath.Join(t.TempDir(), "profiles")}}
	for content, kind := range map[string]cri.SecurityProfile_ProfileType{
		"": cri.SecurityProfile_RuntimeDefault, unconfined: cri.SecurityProfile_Unconfined,
		`{"defaultAction": "SCMP_ACT_ALLOW"}`: cri.SecurityProfile_Localhost,
	} {
		for range 2 {
			profile, err := e.profile(content)
			if err != nil || profile.ProfileType != kind {
				t.Fatalf("%q: %v, %v", content, profile, err)
			}
			if kind != cri.SecurityProfile_Localhost {
				continue
			}
			if written, err := os.ReadFile(profile.LocalhostRef); err != nil || string(written) != content {
				t.Errorf("%q, %v", written, err)
			}
		}
	}
	if files, err := os.ReadDir(e.options.ProfileDir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"unix:///run/containerd/containerd.sock": true, "/run/crio/crio.sock": true,
		"tcp://127.0.0.1:1": false, "unix://": false, "containerd.sock": false, "": false,
	} {
		if err := CheckEndpoint(endpoint); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
