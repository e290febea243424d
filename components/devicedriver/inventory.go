package devicedriver

import (
	"fmt"
	"maps"
	"strings"
	"sync"
)

// device is one device of the node.
type device struct {
	name string
	numa int // its NUMA node; -1 for none
	// reason is why the device is unhealthy; "" while it is healthy.
	reason string
}

// inventory knows the health of devices. It is safe for concurrent use.
type inventory struct {
	mu        sync.Mutex
	unhealthy map[string]string // reasons by name of the device
	changed   chan struct{}     // closed as the health changes
}

func newInventory() *inventory {
	return &inventory{unhealthy: map[string]string{}, changed: make(chan struct{})}
}

// set replaces what is unhealthy.
func (i *inventory) set(unhealthy map[string]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if maps.Equal(i.unhealthy, unhealthy) {
		return
	}
	i.unhealthy = unhealthy
	close(i.changed)
	i.changed = make(chan struct{})
}

// list returns n devices by a common prefix of their names, spread over NUMA nodes, and what is closed when the health
// of any device changes.
func (i *inventory) list(prefix string, n, numaNodes int) ([]device, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	devices := make([]device, n)
	for k := range devices {
		name := fmt.Sprintf("%s-%d", prefix, k)
		devices[k] = device{name: name, numa: -1, reason: i.unhealthy[name]}
		if numaNodes > 0 {
			devices[k].numa = k * numaNodes / n
		}
	}
	return devices, i.changed
}

// parseUnhealthy reads the value of UnhealthyAnnotation: reasons by name of the device.
func parseUnhealthy(value string) map[string]string {
	unhealthy := map[string]string{}
	for item := range strings.SplitSeq(value, ",") {
		name, reason, _ := strings.Cut(strings.TrimSpace(item), "=")
		if name == "" {
			continue
		}
		if reason == "" {
			reason = "marked as unhealthy"
		}
		unhealthy[name] = reason
	}
	return unhealthy
}
