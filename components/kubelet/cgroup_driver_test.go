package kubelet

import (
	"strings"
	"testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestCgroupDriver(t *testing.T) {
	for name, test := range map[string]struct {
		engine, set, told string
		noGroups          bool
		fails             string
	}{
		"both cgroupfs": {engine: "docker", set: "cgroupfs", told: "cgroupfs"},
		"the engine's is systemd": {engine: "docker", set: "cgroupfs", told: "systemd",
			fails: "SystemdCgroup = false"},
		"both systemd": {engine: "docker", set: "systemd", told: "systemd", fails: "cgroupDriver"},
		"only the setting is systemd": {engine: "docker", set: "systemd", told: "cgroupfs",
			fails: `set it to "cgroupfs"`},
		"no control groups of pods": {engine: "docker", set: "systemd", told: "systemd", noGroups: true},
		"CRI tells cgroupfs":        {engine: "cri", set: "systemd", told: "cgroupfs"},
		"CRI tells systemd":         {engine: "cri", set: "cgroupfs", told: "systemd", fails: "cgroupDriver"},
	} {
		c := NewConfig()
		c.Runtime, c.CgroupDriver, c.CgroupsPerQOS = test.engine, test.set, !test.noGroups
		err := c.checkCgroupDriver(runtime.Info{Name: test.engine, CgroupDriver: test.told})
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
		simulated := runtime.Info{CgroupDriver: test.told, Simulated: runtime.Simulated{Processes: true}}
		if err := c.checkCgroupDriver(simulated); err != nil {
			t.Errorf("%s, simulated: %v", name, err)
		}
	}
}
