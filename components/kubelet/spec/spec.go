// Package spec translates a pod's spec to the runtime's: environment, mounts, names, security, resources.
package spec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// Builder holds the settings of the node that containers depend on. It is safe for concurrent use.
type Builder struct {
	Root        string // the kubelet's directory
	Objects     volumes.Objects
	Services    func() ([]*v1.Service, error) // nil: no Services in the environment of pods
	Allocatable func() v1.ResourceList
	MemoryBytes int64 // of the machine
	Cgroups     cgroups.Tree

	PauseImage     string
	ClusterDNS     []string
	ClusterDomain  string
	ResolvConf     string // file
	NodeIPs        []string
	SeccompDefault bool
	CPUQuota       bool
	CPUPeriod      time.Duration
	PidsLimit      int64 // of a pod; less than 1 is none
	LimitedSwap    bool  // else nothing is swapped
	SwapBytes      int64 // of the machine
	KillTogether   bool  // all processes of a container that the OOM killer ends one of
	LogMaxSize     string
	LogMaxFiles    int
	// Recorder, if set, gets an event for parts of a pod's DNS configuration that are dropped; NodeRef is the node in
	// its events.
	Recorder record.EventRecorder
	NodeRef  *v1.ObjectReference
	// RecursiveReadOnly tells that the engine can make the mounts below a read-only mount read-only, too.
	RecursiveReadOnly bool
	// RuntimeHandler finds the engine's handler of a RuntimeClass; nil where it makes no difference.
	RuntimeHandler func(class string) (string, error)
	// AppArmor tells that the kernel enforces its profiles.
	AppArmor bool
	// StrictGroups tells that the engine can keep containers from the groups of their image.
	StrictGroups bool
	// StopSignals has containers stopped by the signal that they name (KEP-4960).
	StopSignals bool
	// Simulated is what the engine only simulates.
	Simulated runtime.Simulated
}

// Sandbox describes the pod's sandbox.
func (b *Builder) Sandbox(pod *v1.Pod, attempt int) (*runtime.SandboxSpec, error) {
	hostname, domain := Hostname(pod, b.ClusterDomain)
	if pod.Spec.SetHostnameAsFQDN != nil && *pod.Spec.SetHostnameAsFQDN && domain != "" {
		hostname += "." + domain
		if len(hostname) > 64 {
			return nil,
				fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (64 characters is "+
					"the max, %d characters requested)", hostname, len(hostname))
		}
	}
	if !b.Simulated.Files {
		_, warnings, err := b.resolver(pod)
		if err != nil {
			return nil, err
		}
		b.warn(pod, warnings)
	}
	s := &runtime.SandboxSpec{
		Pod:          refOf(pod),
		Attempt:      attempt,
		Image:        b.PauseImage,
		Hostname:     hostname,
		HostNetwork:  pod.Spec.HostNetwork,
		HostPID:      pod.Spec.HostPID,
		HostIPC:      pod.Spec.HostIPC,
		SharePID:     sharesPID(pod),
		Privileged:   hasPrivileged(pod),
		CgroupParent: b.Cgroups.Parent(pod.UID, status.QOS(pod)),
		Labels:       pod.Labels,
		Annotations:  pod.Annotations,
	}
	for _, c := range plan.Containers(pod) {
		s.Ports = append(s.Ports, hostPorts(c)...)
	}
	var err error
	if s.Handler, err = b.handler(pod); err != nil {
		return nil, err
	}
	if err := b.checkUserNamespace(pod, s.Handler); err != nil {
		return nil, err
	}
	if sc := pod.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		s.Sysctls = map[string]string{}
		for _, sysctl := range sc.Sysctls {
			s.Sysctls[strings.ReplaceAll(sysctl.Name, "/", ".")] = sysctl.Value
		}
	}
	return s, nil
}

// handler is the way of the engine to run the pod, "" for the default.
func (b *Builder) handler(pod *v1.Pod) (string, error) {
	if class := pod.Spec.RuntimeClassName; class != nil && *class != "" && b.RuntimeHandler != nil {
		return b.RuntimeHandler(*class)
	}
	return "", nil
}

// hasPrivileged tells whether a container of the pod, an ephemeral one that comes later included, may be privileged.
func hasPrivileged(pod *v1.Pod) bool {
	return slices.ContainsFunc(plan.Containers(pod), func(c *v1.Container) bool {
		return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
	})
}

// hostPorts are the ports of c that the node opens.
func hostPorts(c *v1.Container) []v1.ContainerPort {
	return slices.DeleteFunc(slices.Clone(c.Ports), func(p v1.ContainerPort) bool { return p.HostPort == 0 })
}

func refOf(pod *v1.Pod) runtime.PodRef {
	return runtime.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

func sharesPID(pod *v1.Pod) bool {
	return pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace
}

// Hostname is the pod's name in its UTS namespace and the DNS domain that its subdomain gives it, if any.
func Hostname(pod *v1.Pod, clusterDomain string) (name, domain string) {
	name = pod.Spec.Hostname
	if name == "" {
		name = pod.Name
		if len(name) > 63 {
			name = strings.TrimRight(name[:63], "-.")
		}
	}
	if pod.Spec.HostnameOverride != nil {
		return *pod.Spec.HostnameOverride, ""
	}
	if pod.Spec.Subdomain != "" {
		domain = fmt.Sprintf("%s.%s.svc.%s", pod.Spec.Subdomain, pod.Namespace, clusterDomain)
	}
	return name, domain
}

// Request holds what a container is created from in addition to its spec.
type Request struct {
	Pod       *v1.Pod // with the addresses it has in its status
	Container *v1.Container
	Sandbox   *runtime.Sandbox
	Attempt   int
	Image     runtime.Image
	Volumes   map[string]volumes.Mounted
	Target    string // container whose process namespace is joined, "" for none
	// Devices are what drivers of devices give it; nil for none.
	Devices *devices.Options
}

// Container describes a container. It makes the small files that it mounts.
func (b *Builder) Container(ctx context.Context, r *Request) (*runtime.ContainerSpec, error) {
	pod, c := r.Pod, r.Container
	env, err := b.environment(ctx, r)
	if err != nil {
		return nil, err
	}
	lookup := func(name string) (string, bool) {
		value, ok := env.values[name]
		return value, ok
	}
	s := &runtime.ContainerSpec{
		Pod:            refOf(pod),
		Name:           c.Name,
		Attempt:        r.Attempt,
		SandboxID:      r.Sandbox.ID,
		Hash:           plan.Hash(c),
		Image:          c.Image,
		ImageID:        r.Image.ID,
		Command:        expandAll(c.Command, lookup),
		Args:           expandAll(c.Args, lookup),
		WorkingDir:     c.WorkingDir,
		Env:            withDevices(env, r.Devices),
		Stdin:          c.Stdin,
		StdinOnce:      c.StdinOnce,
		TTY:            c.TTY,
		HostNetwork:    pod.Spec.HostNetwork,
		HostPID:        pod.Spec.HostPID,
		SharePID:       sharesPID(pod),
		TargetPID:      r.Target,
		CgroupParent:   b.Cgroups.Parent(pod.UID, status.QOS(pod)),
		PidsLimit:      b.containerPIDs(),
		OOMScoreAdjust: oomScore(pod, c, b.MemoryBytes),
		LogMaxSize:     b.LogMaxSize,
		LogMaxFiles:    b.LogMaxFiles,
		Annotations:    pod.Annotations,
	}
	if b.StopSignals && c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		s.StopSignal = string(*c.Lifecycle.StopSignal)
	}
	if s.Handler, err = b.handler(pod); err != nil {
		return nil, err
	}
	s.Resources = b.Resources(pod, c)
	memory := c.Resources.Requests[v1.ResourceMemory]
	s.MemoryRequest = memory.Value()
	if err := b.security(r, s); err != nil {
		return nil, err
	}
	addDevices(s, r.Devices)
	if b.Simulated.Files {
		return s, nil
	}
	return s, b.mounts(r, lookup, s)
}

func expandAll(words []string, lookup func(string) (string, bool)) []string {
	if words == nil {
		return nil
	}
	expanded := make([]string, len(words))
	for i, word := range words {
		expanded[i] = expand(word, lookup)
	}
	return expanded
}

// mounts lists volume mounts and the files that every container gets.
func (b *Builder) mounts(r *Request, lookup func(string) (string, bool), s *runtime.ContainerSpec) error {
	taken := map[string]bool{}
	for i := range s.Mounts { // of devices
		taken[filepath.Clean(s.Mounts[i].Target)] = true
	}
	for i := range r.Container.VolumeMounts {
		m, err := b.volumeMount(r, i, lookup)
		if err != nil {
			return err
		}
		taken[filepath.Clean(m.Target)] = true
		s.Mounts = append(s.Mounts, m)
	}
	for _, device := range r.Container.VolumeDevices {
		volume, ok := r.Volumes[device.Name]
		if !ok || !volume.Block {
			return fmt.Errorf("volume device %q: the pod has no block volume of that name", device.Name)
		}
		source, err := filepath.EvalSymlinks(volume.Path)
		if err != nil {
			return fmt.Errorf("volume device %q: %w", device.Name, err)
		}
		s.Devices = append(s.Devices, runtime.Device{
			Source: source, Target: device.DevicePath, ReadOnly: volume.ReadOnly,
		})
	}
	dir := b.podDir(r.Pod)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if !taken["/etc/hosts"] {
		path := filepath.Join(dir, hostsFile)
		if err := b.writeHosts(path, r.Pod); err != nil {
			return err
		}
		s.Mounts = append(s.Mounts, runtime.Mount{Source: path, Target: "/etc/hosts"})
	}
	if !taken["/etc/resolv.conf"] {
		path := filepath.Join(dir, "resolv.conf")
		if err := b.writeResolvConf(path, r.Pod); err != nil {
			return err
		}
		s.Mounts = append(s.Mounts, runtime.Mount{Source: path, Target: "/etc/resolv.conf"})
	}
	return b.messageFile(dir, r, s)
}

// messageFile makes the file that the container writes its last words to.
func (b *Builder) messageFile(dir string, r *Request, s *runtime.ContainerSpec) error {
	if r.Container.TerminationMessagePath == "" {
		return nil
	}
	own := filepath.Join(dir, "containers", r.Container.Name)
	if err := os.MkdirAll(own, 0o750); err != nil {
		return err
	}
	s.MessageFile = filepath.Join(own, fmt.Sprint(r.Attempt))
	if err := os.WriteFile(s.MessageFile, nil, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(s.MessageFile, 0o666); err != nil { // any user of the container writes it
		return err
	}
	s.Mounts = append(s.Mounts, runtime.Mount{Source: s.MessageFile, Target: r.Container.TerminationMessagePath})
	return nil
}

// volumeMount describes the container's mount of index i.
func (b *Builder) volumeMount(r *Request, i int, lookup func(string) (string, bool)) (runtime.Mount, error) {
	m := &r.Container.VolumeMounts[i]
	volume, ok := r.Volumes[m.Name]
	source := volume.Path
	if !ok {
		return runtime.Mount{}, fmt.Errorf("volume mount %q: the pod has no volume of that name", m.Name)
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		missing := ""
		sub = expand(m.SubPathExpr, func(name string) (string, bool) {
			value, ok := lookup(name)
			if !ok {
				missing = name
			}
			return value, ok
		})
		if missing != "" {
			return runtime.Mount{}, fmt.Errorf("subPathExpr %q: variable %s is not set", m.SubPathExpr, missing)
		}
	}
	if sub != "" {
		var err error
		target := filepath.Join(b.podDir(r.Pod), "volume-subpaths", m.Name, r.Container.Name, fmt.Sprint(i))
		if source, err = volumes.SubPath(volume, sub, target); err != nil {
			return runtime.Mount{}, err
		}
	}
	target := m.MountPath
	if !filepath.IsAbs(target) {
		target = "/" + target
	}
	mount := runtime.Mount{Source: source, Target: target, ReadOnly: m.ReadOnly || volume.ReadOnly}
	if mode := m.RecursiveReadOnly; mode != nil && m.ReadOnly {
		mount.RecursiveReadOnly = *mode == v1.RecursiveReadOnlyEnabled ||
			*mode == v1.RecursiveReadOnlyIfPossible && b.RecursiveReadOnly
		if mount.RecursiveReadOnly && !b.RecursiveReadOnly {
			return runtime.Mount{}, fmt.Errorf("failed to resolve recursive read-only mode: volume %q requested "+
				"recursive read-only mode, but it is not supported by the runtime", m.Name)
		}
	}
	if m.MountPropagation != nil {
		switch *m.MountPropagation {
		case v1.MountPropagationHostToContainer:
			mount.Propagation = "rslave"
		case v1.MountPropagationBidirectional:
			mount.Propagation = "rshared"
		}
	}
	return mount, nil
}
