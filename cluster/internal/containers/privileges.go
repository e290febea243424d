package containers

import (
	"os"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
)

// privileges of a node, which runs an engine of its own: all, or what is enough where the host itself lacks some.
type privileges struct{ full bool }

// likelyPrivileges guesses from this machine's first process, which an engine of this machine can't surpass. A wrong
// guess is harmless: too much is corrected by the engine's refusal, too little is enough.
func likelyPrivileges(host engineHost) privileges {
	const sysResource = 24 // CAP_SYS_RESOURCE, linux/capability.h
	if !host.isLocal() {
		return privileges{full: true}
	}
	status, err := os.ReadFile("/proc/1/status")
	if err != nil {
		return privileges{full: true}
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bounding, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return privileges{full: err != nil || bounding&(1<<sysResource) != 0}
		}
	}
	return privileges{full: true}
}

func (p privileges) apply(host *container.HostConfig) {
	host.Tmpfs = map[string]string{"/run": "exec", "/tmp": "exec"}
	if p.full {
		host.Privileged = true
		return
	}
	host.CapAdd = []string{"ALL"}
	host.CapDrop = []string{"SYS_RESOURCE"}
	host.SecurityOpt = []string{"seccomp=unconfined", "apparmor=unconfined"}
	host.DeviceCgroupRules = []string{"a *:* rwm"}
}

func (c *Containers) machinePrivileges() privileges {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.privileges
}

// setLimited remembers the engine's refusal, so that the next node does not ask.
func (c *Containers) setLimited() {
	c.mu.Lock()
	c.privileges = privileges{}
	c.mu.Unlock()
}

// String says in words what nodes run with.
func (p privileges) String() string {
	if p.full {
		return "nodes run privileged"
	}
	return "nodes run with all capabilities but SYS_RESOURCE (the host lacks it: no privileged containers)"
}
