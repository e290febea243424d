package cri

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// CreateContainer implements runtime.Runtime.
func (e *Engine) CreateContainer(ctx context.Context, spec *runtime.ContainerSpec) (_ string, err error) {
	defer e.observe("create_container", &err)()
	config, err := containerConfig(spec, e.options.Node, e.machine.cgroupVersion)
	if err != nil {
		return "", err
	}
	if security := config.GetLinux().GetSecurityContext(); !spec.Privileged {
		if security.Seccomp, err = e.profile(spec.Seccomp); err != nil {
			return "", err
		}
	}
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	found, err := e.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: spec.SandboxID})
	if err != nil {
		return "", mark(err)
	}
	sandbox := again(found.GetStatus(), spec.CgroupParent, e.options.LogDir)
	sandbox.Linux.SecurityContext.Privileged = spec.Privileged // which its status does not tell
	config.Linux.SecurityContext.NamespaceOptions.Ipc = sandbox.Linux.SecurityContext.GetNamespaceOptions().GetIpc()
	if err := makeLogDir(filepath.Join(sandbox.GetLogDirectory(), filepath.Dir(config.GetLogPath()))); err != nil {
		return "", err
	}
	answer, err := e.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: spec.SandboxID, Config: config, SandboxConfig: sandbox,
	})
	return answer.GetContainerId(), mark(err)
}

func makeLogDir(dir string) error { return os.MkdirAll(dir, 0o755) }

// unconfined is what stands for no profile, of seccomp or AppArmor.
const unconfined = "unconfined"

// profile gives the engine a seccomp profile, as a file named by its content.
func (e *Engine) profile(content string) (*cri.SecurityProfile, error) {
	switch content {
	case "":
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}, nil
	case unconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}, nil
	}
	file := filepath.Join(e.options.ProfileDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(content))))
	if err := writeOnce(file, content); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: file}, nil
}

// writeOnce writes a file, unless it is there: those that exist are whole.
func writeOnce(file, content string) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	half, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return err
	}
	_, err = half.WriteString(content)
	if err = errors.Join(err, half.Close()); err == nil {
		err = os.Rename(half.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(half.Name()))
	}
	return nil
}

// startGrace is what a start that is under way may take after its context ended.
const startGrace = 2 * time.Second

// Start implements runtime.Runtime. A start is completed even when ctx ends: engines count a start whose client went
// away as failed, and a container that failed to start may be its pod's end.
func (e *Engine) Start(ctx context.Context, id string) (err error) {
	defer e.observe("start_container", &err)()
	if err := ctx.Err(); err != nil {
		return err
	}
	begun, cancel := bounded(context.WithoutCancel(ctx), 0)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-begun.Done():
		case <-time.After(startGrace):
			cancel()
		}
	})()
	_, err = e.runtime.StartContainer(begun, &cri.StartContainerRequest{ContainerId: id})
	return mark(err)
}

// Stop implements runtime.Runtime. A sandbox ends at once, with its network.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) (err error) {
	ctx, cancel := bounded(ctx, max(0, grace))
	defer cancel()
	sandbox, err := e.isSandbox(ctx, id)
	if err != nil {
		return err
	}
	if sandbox {
		return e.stopSandbox(ctx, id)
	}
	defer e.observe("stop_container", &err)()
	seconds := int64(math.Ceil(max(0, grace).Seconds()))
	_, err = e.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: seconds})
	return ignoreAbsent(mark(err))
}

// stopSandbox is done once for all that ask for it meanwhile: engines take the network of a sandbox down twice at once,
// and fail.
func (e *Engine) stopSandbox(ctx context.Context, id string) error {
	_, err, _ := e.stopping.Do(id, func() (_ any, err error) {
		defer e.observe("stop_podsandbox", &err)()
		_, err = e.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
		return nil, ignoreAbsent(mark(err))
	})
	return err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}

// Remove implements runtime.Runtime.
func (e *Engine) Remove(ctx context.Context, id string) (err error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	sandbox, err := e.isSandbox(ctx, id)
	if err != nil {
		return err
	}
	if sandbox {
		return e.removeSandbox(ctx, id)
	}
	defer e.observe("remove_container", &err)()
	// One that runs still is ended first: engines differ in whether they do that themselves.
	_, err = e.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id})
	if err = ignoreAbsent(mark(err)); err != nil {
		return err
	}
	_, err = e.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
	if err = ignoreAbsent(mark(err)); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.finished, id)
	e.mu.Unlock()
	return nil
}

func (e *Engine) removeSandbox(ctx context.Context, id string) (err error) {
	defer e.observe("remove_podsandbox", &err)()
	if err := e.stopSandbox(ctx, id); err != nil { // else its network would not be taken down
		return err
	}
	_, err = e.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	if err = ignoreAbsent(mark(err)); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.sandboxes, id)
	e.mu.Unlock()
	return nil
}

// Resize implements runtime.Runtime.
func (e *Engine) Resize(ctx context.Context, id string, r runtime.Resources) (err error) {
	defer e.observe("update_container_resources", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	_, err = e.runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: id,
		Linux: resources(r)})
	return mark(err)
}

// resources translates what a container gets: memory and swap together are what memory is alone, so that nothing is
// swapped.
func resources(r runtime.Resources) *cri.LinuxContainerResources {
	return &cri.LinuxContainerResources{CpuShares: r.CPUShares, CpuQuota: r.CPUQuota, CpuPeriod: r.CPUPeriod,
		MemoryLimitInBytes: r.MemoryBytes, MemorySwapLimitInBytes: r.MemoryBytes}
}

// ReopenLog implements runtime.LogFiles.
func (e *Engine) ReopenLog(ctx context.Context, id string) (err error) {
	defer e.observe("reopen_container_log", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	_, err = e.runtime.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id})
	return mark(err)
}

func note(n int64) string { return strconv.FormatInt(n, 10) }
