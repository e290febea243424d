// Package hostports opens the host ports of pods: the kernel's nftables translate the destination of packets to the
// node's port into the pod's, and leave the client's address as it is.
package hostports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Mapping leads a port of the node to a port of a running sandbox.
type Mapping struct {
	Protocol v1.Protocol
	// HostIP is the address of the node that the port is open on, of the family of Target; the zero Addr is all of
	// them.
	HostIP   netip.Addr
	HostPort uint16
	Target   netip.AddrPort
	// Pod names the pod for people, as namespace/name.
	Pod string
	// Created is when the sandbox was created: of two with the same host port the newer gets it.
	Created time.Time
}

// MappingsOf lists the host ports of the pod's newest sandbox; there are none unless it runs. A port without host IP is
// open on the addresses of all families that the pod has.
func MappingsOf(pod *runtime.Pod) ([]Mapping, error) {
	sandbox := pod.Sandbox()
	if sandbox == nil || sandbox.State != runtime.Running {
		return nil, nil
	}
	var mappings []Mapping
	for _, port := range sandbox.Ports {
		if port.HostPort == 0 {
			continue
		}
		var host netip.Addr
		if port.HostIP != "" {
			var err error
			if host, err = netip.ParseAddr(port.HostIP); err != nil {
				return nil, fmt.Errorf("host IP of host port %d: %w", port.HostPort, err)
			}
		}
		for _, text := range sandbox.IPs {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("address of sandbox %s: %w", sandbox.ID, err)
			}
			if host.IsValid() && host.Is4() != ip.Is4() {
				continue
			}
			m := Mapping{
				Protocol: cmp.Or(port.Protocol, v1.ProtocolTCP), HostPort: uint16(port.HostPort),
				Created: sandbox.Created,
				Target:  netip.AddrPortFrom(ip, uint16(port.ContainerPort)), Pod: pod.Namespace + "/" + pod.Name,
			}
			if host.IsValid() && !host.IsUnspecified() {
				m.HostIP = host
			}
			mappings = append(mappings, m)
		}
	}
	return mappings, nil
}

// Filter is the kernel's packet filter, as far as it is ours. Manager calls it once at a time.
type Filter interface {
	// Apply makes mappings all that there are, or fails and may leave some families as they were. Of two mappings of
	// one port the first counts.
	Apply(ctx context.Context, mappings []Mapping) error
	// Intact tells whether the filter is as Apply left it with these mappings.
	Intact(ctx context.Context, mappings []Mapping) bool
}

// Conntrack is the kernel's table of connections.
type Conntrack interface {
	// Forget drops the entries of packets to the host ports of mappings: UDP has no end of a connection after which
	// the next packet would be translated again.
	Forget(mappings []Mapping) error
}

// Manager keeps the host ports of all pods of the node in the kernel. It is safe for concurrent use.
type Manager struct {
	filter    Filter
	conntrack Conntrack
	ready     chan struct{} // closed after the first Sync

	mu      sync.Mutex
	pods    map[types.UID][]Mapping // as set by Set
	found   map[types.UID][]Mapping // of other pods, as set by Sync
	applied []Mapping
	whole   bool // the kernel has what was applied
}

// NewManager makes a manager. What an earlier one left in the kernel stays until the first Sync.
func NewManager(filter Filter, conntrack Conntrack) *Manager {
	return &Manager{filter: filter, conntrack: conntrack, ready: make(chan struct{}), pods: map[types.UID][]Mapping{}}
}

// Set makes the kernel have the host ports of the pod as it is observed. It waits for the first Sync, as what is there
// before belongs to pods that are not known yet. After an error the pod has the ports that it had before.
func (m *Manager) Set(ctx context.Context, pod *runtime.Pod) error {
	mappings, err := MappingsOf(pod)
	if err != nil {
		return err
	}
	if len(mappings) == 0 {
		return m.Forget(ctx, pod.UID)
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.pods[pod.UID]
	if known && m.whole && slices.Equal(before, mappings) {
		return nil
	}
	m.pods[pod.UID] = mappings
	if err := m.apply(ctx); err != nil {
		if m.pods[pod.UID] = before; !known {
			delete(m.pods, pod.UID)
		}
		return err
	}
	delete(m.found, pod.UID)
	return nil
}

// Forget closes the ports of a pod. What can't be closed now is by the next Sync.
func (m *Manager) Forget(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.pods[uid]
	_, found := m.found[uid]
	if !known && !found {
		return nil
	}
	delete(m.pods, uid)
	delete(m.found, uid)
	return m.apply(ctx)
}

// Sync takes in all pods that the runtime has. It counts for those that Set was not called for, such as those that an
// earlier kubelet started; what is in the kernel for others goes. What was removed from the kernel comes back.
func (m *Manager) Sync(ctx context.Context, pods []runtime.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = map[types.UID][]Mapping{}
	for i := range pods {
		uid := pods[i].UID
		if _, known := m.pods[uid]; known {
			continue
		}
		if mappings, err := MappingsOf(&pods[i]); err == nil && len(mappings) > 0 { // Set reports errors
			m.found[uid] = mappings
		}
	}
	if m.whole && !m.filter.Intact(ctx, m.applied) {
		m.whole = false
	}
	err := m.apply(ctx)
	select {
	case <-m.ready:
	default:
		close(m.ready)
	}
	return err
}

// apply writes what differs; it is called with the lock held.
func (m *Manager) apply(ctx context.Context) error {
	wanted := m.wanted()
	if m.whole && slices.Equal(wanted, m.applied) {
		return nil
	}
	changed := difference(m.applied, wanted)
	m.whole = false
	if err := m.filter.Apply(ctx, wanted); err != nil {
		return fmt.Errorf("host ports: %w", err)
	}
	m.applied, m.whole = wanted, true
	changed = slices.DeleteFunc(changed, func(m Mapping) bool { return m.Protocol != v1.ProtocolUDP })
	if len(changed) == 0 {
		return nil
	}
	if err := m.conntrack.Forget(changed); err != nil {
		return fmt.Errorf("host ports: %w", err)
	}
	return nil
}

// wanted lists the mappings of all pods, in an order that depends on nothing else.
func (m *Manager) wanted() []Mapping {
	all := maps.Clone(m.pods)
	for uid, mappings := range m.found {
		if _, known := all[uid]; !known {
			all[uid] = mappings
		}
	}
	var wanted []Mapping
	for _, mappings := range all {
		wanted = append(wanted, mappings...)
	}
	slices.SortFunc(wanted, func(a, b Mapping) int {
		return cmp.Or(
			strings.Compare(string(a.Protocol), string(b.Protocol)), cmp.Compare(a.HostPort, b.HostPort),
			a.HostIP.Compare(b.HostIP), b.Created.Compare(a.Created), a.Target.Compare(b.Target),
			strings.Compare(a.Pod, b.Pod),
		)
	})
	return wanted
}

// difference lists what only one of two lists has.
func difference(a, b []Mapping) []Mapping {
	only := map[Mapping]bool{}
	for _, m := range a {
		only[m] = true
	}
	for _, m := range b {
		if only[m] {
			delete(only, m)
		} else {
			only[m] = true
		}
	}
	return slices.Collect(maps.Keys(only))
}
