package spec

import (
	"maps"
	"slices"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// withDevices lists the variables of a container with those of its devices; the container's own win.
func withDevices(env *environment, o *devices.Options) []string {
	list := env.list()
	if o == nil {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		if _, taken := env.values[name]; !taken {
			list = append(list, name+"="+o.Env[name])
		}
	}
	return list
}

// addDevices gives a container what belongs to its devices.
func addDevices(s *runtime.ContainerSpec, o *devices.Options) {
	if o == nil {
		return
	}
	for _, m := range o.Mounts {
		s.Mounts = append(s.Mounts, runtime.Mount{Source: m.HostPath, Target: m.ContainerPath, ReadOnly: m.ReadOnly})
	}
	for _, d := range o.Devices {
		s.Devices = append(s.Devices, runtime.Device{
			Source: d.HostPath, Target: d.ContainerPath, Permissions: d.Permissions,
		})
	}
	s.CDI, s.DeviceAnnotations = o.CDI, o.Annotations
}
