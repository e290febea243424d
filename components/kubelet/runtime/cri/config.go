package cri

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// containerConfig translates a container, but for its seccomp profile, which engines read from a file.
func containerConfig(spec *runtime.ContainerSpec, node, cgroupVersion string) (*cri.ContainerConfig, error) {
	signal, err := stopSignal(spec.StopSignal)
	if err != nil {
		return nil, err
	}
	limits := resources(spec.Resources)
	limits.OomScoreAdj = int64(spec.OOMScoreAdjust)
	if spec.PidsLimit > 0 {
		if cgroupVersion != "2" {
			return nil, fmt.Errorf("a limit of %d processes per container needs control groups of version 2", spec.PidsLimit)
		}
		limits.Unified = map[string]string{"pids.max": note(spec.PidsLimit)}
	}
	security, err := securityContext(spec)
	if err != nil {
		return nil, err
	}
	config := &cri.ContainerConfig{
		Metadata:    &cri.ContainerMetadata{Name: spec.Name, Attempt: uint32(spec.Attempt)},
		Image:       &cri.ImageSpec{Image: spec.ImageID, UserSpecifiedImage: spec.Image},
		Command:     spec.Command,
		Args:        spec.Args,
		WorkingDir:  spec.WorkingDir,
		Envs:        environment(spec.Env),
		Mounts:      mounts(spec.Mounts),
		Devices:     devices(spec),
		CDIDevices:  cdiDevices(spec.CDI),
		Labels:      podLabels(spec.Pod, node, nil),
		Annotations: containerNotes(spec),
		LogPath:     logFile(spec.Name, spec.Attempt),
		Stdin:       spec.Stdin,
		StdinOnce:   spec.StdinOnce,
		Tty:         spec.TTY,
		StopSignal:  signal,
		Linux:       &cri.LinuxContainerConfig{Resources: limits, SecurityContext: security},
	}
	config.Labels[labelContainer] = spec.Name
	return config, nil
}

func containerNotes(spec *runtime.ContainerSpec) map[string]string {
	notes := map[string]string{}
	maps.Copy(notes, spec.DeviceAnnotations)
	notes[noteHash] = spec.Hash
	notes[noteMessageFile] = spec.MessageFile
	notes[noteImage] = spec.Image
	notes[noteMemoryRequest] = note(spec.MemoryRequest)
	return notes
}

func environment(variables []string) []*cri.KeyValue {
	var pairs []*cri.KeyValue
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		pairs = append(pairs, &cri.KeyValue{Key: name, Value: []byte(value)})
	}
	return pairs
}

func mounts(wanted []runtime.Mount) []*cri.Mount {
	var all []*cri.Mount
	for _, m := range wanted {
		propagation := cri.MountPropagation_PROPAGATION_PRIVATE
		switch m.Propagation {
		case "rslave":
			propagation = cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		case "rshared":
			propagation = cri.MountPropagation_PROPAGATION_BIDIRECTIONAL
		}
		all = append(all, &cri.Mount{ContainerPath: m.Target, HostPath: m.Source, Readonly: m.ReadOnly,
			RecursiveReadOnly: m.RecursiveReadOnly, Propagation: propagation})
	}
	return all
}

func devices(spec *runtime.ContainerSpec) []*cri.Device {
	var all []*cri.Device
	for _, d := range spec.Devices {
		permissions := d.Permissions
		switch {
		case permissions != "":
		case d.ReadOnly:
			permissions = "mr"
		default:
			permissions = "mrw"
		}
		all = append(all, &cri.Device{ContainerPath: d.Target, HostPath: d.Source, Permissions: permissions})
	}
	return all
}

func cdiDevices(names []string) []*cri.CDIDevice {
	var all []*cri.CDIDevice
	for _, name := range names {
		all = append(all, &cri.CDIDevice{Name: name})
	}
	return all
}

// stopSignal is a signal by its name, such as SIGUSR1.
func stopSignal(name string) (cri.Signal, error) {
	if name == "" {
		return cri.Signal_RUNTIME_DEFAULT, nil
	}
	// In names of the interface, PLUS and MINUS stand for signs.
	value, ok := cri.Signal_value[strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(name)]
	if !ok {
		return 0, fmt.Errorf("stop signal %q is not one of the container runtime interface", name)
	}
	return cri.Signal(value), nil
}

// What containers don't see of /proc and /sys, and what they can't change there, unless they may
// (https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#managing-access-to-the-proc-filesystem).
var (
	maskedPaths = []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap"}
	readOnlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func securityContext(spec *runtime.ContainerSpec) (*cri.LinuxContainerSecurityContext, error) {
	security := &cri.LinuxContainerSecurityContext{
		Capabilities:     &cri.Capability{AddCapabilities: spec.AddCaps, DropCapabilities: spec.DropCaps},
		Privileged:       spec.Privileged,
		NamespaceOptions: namespaces(spec),
		SelinuxOptions:   selinux(spec.SELinux),
		ReadonlyRootfs:   spec.ReadOnlyRoot,
		NoNewPrivs:       spec.NoNewPrivs,
		Apparmor:         appArmor(spec.AppArmor),
	}
	if spec.StrictGroups {
		security.SupplementalGroupsPolicy = cri.SupplementalGroupsPolicy_Strict
	}
	if !spec.UnmaskedProc && !spec.Privileged {
		security.MaskedPaths, security.ReadonlyPaths = maskedPaths, readOnlyPaths
	}
	for _, text := range spec.Groups {
		group, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("supplementary group %q is not a number", text)
		}
		security.SupplementalGroups = append(security.SupplementalGroups, group)
	}
	return security, setUser(security, spec.User)
}

// setUser has the container run as "uid", "uid:gid", or the user that its image asks for.
func setUser(security *cri.LinuxContainerSecurityContext, user string) error {
	if user == "" {
		return nil
	}
	name, group, grouped := strings.Cut(user, ":")
	if uid, err := strconv.ParseInt(name, 10, 64); err == nil {
		security.RunAsUser = &cri.Int64Value{Value: uid}
	} else {
		security.RunAsUsername = name // the image's
	}
	if !grouped {
		return nil
	}
	gid, err := strconv.ParseInt(group, 10, 64)
	if err != nil {
		return fmt.Errorf("group %q of user %q is not a number", group, user)
	}
	security.RunAsGroup = &cri.Int64Value{Value: gid}
	return nil
}

func namespaces(spec *runtime.ContainerSpec) *cri.NamespaceOption {
	options := &cri.NamespaceOption{Network: mode(spec.HostNetwork, cri.NamespaceMode_POD),
		Pid: cri.NamespaceMode_CONTAINER}
	switch {
	case spec.HostPID:
		options.Pid = cri.NamespaceMode_NODE
	case spec.TargetPID != "":
		options.Pid, options.TargetId = cri.NamespaceMode_TARGET, spec.TargetPID
	case spec.SharePID:
		options.Pid = cri.NamespaceMode_POD
	}
	return options
}

// appArmor leaves the default to the engine, which has one only where the machine has AppArmor.
func appArmor(profile string) *cri.SecurityProfile {
	switch profile {
	case "":
		return nil
	case unconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: profile}
}

// selinux reads labels such as "type:spc_t".
func selinux(labels []string) *cri.SELinuxOption {
	if len(labels) == 0 {
		return nil
	}
	option := &cri.SELinuxOption{}
	for _, label := range labels {
		part, value, _ := strings.Cut(label, ":")
		switch part {
		case "user":
			option.User = value
		case "role":
			option.Role = value
		case "type":
			option.Type = value
		case "level":
			option.Level = value
		}
	}
	return option
}
