package kubelet

import (
	"fmt"

	"quintet.dev/quintet/components/kubelet/runtime"
)

const systemdDriver = "systemd"

// checkCgroupDriver refuses to start where pods would silently lack their limits: this kubelet writes them into control
// groups itself, which systemd reverts in those that it makes. An engine behind CRI that tells its driver wins over the
// setting, as https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers says.
func (c *Config) checkCgroupDriver(info runtime.Info) error {
	switch {
	case info.Simulated.Processes:
		return nil
	case info.CgroupDriver == systemdDriver && c.CgroupsPerQOS:
		return fmt.Errorf("cgroupDriver (--cgroup-driver): the container engine %s uses systemd, which this kubelet "+
			"does not support: have it use cgroupfs (Docker: --exec-opt native.cgroupdriver=cgroupfs, containerd: "+
			"SystemdCgroup = false), or set cgroupsPerQOS (--cgroups-per-qos) to false, which leaves pods without "+
			"limits as a whole", info.Name)
	case c.CgroupDriver == systemdDriver && info.CgroupDriver != systemdDriver && c.engineKind() == "docker":
		return fmt.Errorf("cgroupDriver (--cgroup-driver) is %q, but the container engine %s uses %q: set it to %q",
			c.CgroupDriver, info.Name, info.CgroupDriver, info.CgroupDriver)
	}
	return nil
}
