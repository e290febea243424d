package cri

import (
	"context"
	"maps"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// CreateSandbox implements runtime.Runtime. The image of a sandbox is a matter of the engine's configuration.
func (e *Engine) CreateSandbox(ctx context.Context, spec *runtime.SandboxSpec) (_ string, err error) {
	defer e.observe("run_podsandbox", &err)()
	config, err := sandboxConfig(spec, e.options.Node, e.options.LogDir)
	if err != nil {
		return "", err
	}
	if err := makeLogDir(config.GetLogDirectory()); err != nil {
		return "", err
	}
	ctx, cancel := bounded(ctx, requestTimeout) // networks take time
	defer cancel()
	answer, err := e.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: spec.Handler})
	if err != nil {
		return "", mark(err)
	}
	id := answer.GetPodSandboxId()
	e.mu.Lock()
	e.sandboxes[id] = known{uid: spec.Pod.UID}
	e.mu.Unlock()
	if spec.Created != nil {
		spec.Created(id)
	}
	return id, nil
}

// sandboxConfig translates a sandbox.
func sandboxConfig(spec *runtime.SandboxSpec, node, logDir string) (*cri.PodSandboxConfig, error) {
	annotations := map[string]string{}
	maps.Copy(annotations, spec.Annotations)
	annotations[noteHostname] = spec.Hostname
	hostname, ports := spec.Hostname, spec.Ports
	if spec.HostNetwork { // then the name and ports are the machine's
		hostname, ports = "", nil
		delete(annotations, noteHostname)
	}
	if err := setPorts(annotations, ports); err != nil {
		return nil, err
	}
	return &cri.PodSandboxConfig{
		Metadata:     metadataOf(spec.Pod, spec.Attempt),
		Hostname:     hostname,
		LogDirectory: podLogs(logDir, spec.Pod),
		Labels:       podLabels(spec.Pod, node, spec.Labels),
		Annotations:  annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: spec.CgroupParent,
			Sysctls:      spec.Sysctls,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{
					Network: mode(spec.HostNetwork, cri.NamespaceMode_POD),
					Pid:     sandboxPID(spec),
					Ipc:     mode(spec.HostIPC, cri.NamespaceMode_POD),
				},
				Privileged: spec.Privileged,
				Seccomp:    &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
			},
		},
	}, nil
}

func sandboxPID(spec *runtime.SandboxSpec) cri.NamespaceMode {
	if spec.SharePID {
		return mode(spec.HostPID, cri.NamespaceMode_POD)
	}
	return mode(spec.HostPID, cri.NamespaceMode_CONTAINER)
}

// mode is the machine's namespace, or another one.
func mode(host bool, otherwise cri.NamespaceMode) cri.NamespaceMode {
	if host {
		return cri.NamespaceMode_NODE
	}
	return otherwise
}

// again is what a sandbox was made from, as far as its containers need it, from what the engine tells of it.
func again(sandbox *cri.PodSandboxStatus, cgroupParent, logDir string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata:     sandbox.GetMetadata(),
		Hostname:     sandbox.GetAnnotations()[noteHostname],
		LogDirectory: podLogs(logDir, podOf(sandbox.GetLabels())),
		Labels:       sandbox.GetLabels(),
		Annotations:  sandbox.GetAnnotations(),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: cgroupParent,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: sandbox.GetLinux().GetNamespaces().GetOptions(),
			},
		},
	}
}

// isSandbox tells whether an ID is that of a sandbox.
func (e *Engine) isSandbox(ctx context.Context, id string) (bool, error) {
	e.mu.Lock()
	_, ok := e.sandboxes[id]
	e.mu.Unlock()
	if ok {
		return true, nil
	}
	listed, err := e.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{Id: id}})
	return len(listed.GetItems()) > 0, mark(err)
}
