// Package services gives services what is unique in the cluster: cluster IPs, node ports, ports for health checks. What
// is taken is written down in the store before the service that takes it, as IPAddress objects and as a bitmap of
// ports, in upstream's forms; so several API servers agree, and Repair finds what a crash left behind.
package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	utilnet "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Config of an Allocator.
type Config struct {
	// CIDRs are the ranges of cluster IPs, one or two of different families; the first is the default family.
	CIDRs []netip.Prefix
	// FirstNodePort and NodePorts are the range of ports on nodes; 30000 and 2768 if zero.
	FirstNodePort, NodePorts int
	// Objects reads and writes IPAddress objects and reads services and service CIDRs.
	Objects objects.Store
	// Ranges keeps the bitmap of node ports.
	Ranges Ranges
	// Clock is the real one if nil; RepairEvery is how often leaks are looked for, 3 minutes if zero.
	Clock       clock.WithTicker
	RepairEvery time.Duration
}

// Allocator is safe for concurrent use. It implements api.ServiceAllocator.
type Allocator struct {
	Config
	addresses addresses
	ports     ports
	metrics   *metrics
	// giveBackTime is the constant, but for tests.
	giveBackTime time.Duration

	mu sync.Mutex
	// pending are addresses and ports taken for writes that haven't ended: Repair leaves them alone.
	pendingIPs      map[string]int
	pendingPorts    map[int]int
	suspects        map[int]int   // how often Repair has seen ports in a row that were taken and had no owner
	unreportedPorts []missingPort // found by Prepare, not yet reported
	queue           requeuer      // what to repair next; set by Run
	events          Events        // of repairs, which are one after the other; set by Run
}

// New checks the configuration.
func New(c Config) (*Allocator, error) {
	if len(c.CIDRs) == 0 || len(c.CIDRs) > 2 {
		return nil, fmt.Errorf("services: %d ranges of cluster IPs, want one or two: set --service-cluster-ip-range",
			len(c.CIDRs))
	}
	if len(c.CIDRs) == 2 && c.CIDRs[0].Addr().Is4() == c.CIDRs[1].Addr().Is4() {
		return nil,
			fmt.Errorf("services: %v and %v are of one IP family: name one range of each in --service-cluster-ip-range",
				c.CIDRs[0], c.CIDRs[1])
	}
	if c.FirstNodePort == 0 {
		c.FirstNodePort, c.NodePorts = 30000, 2768
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.RepairEvery == 0 {
		c.RepairEvery = 3 * time.Minute
	}
	a := &Allocator{
		Config:     c,
		addresses:  addresses{objects: c.Objects, cidrs: c.CIDRs, random: rand.Uint64N},
		ports:      ports{ranges: c.Ranges, first: c.FirstNodePort, size: c.NodePorts, random: rand.IntN},
		pendingIPs: map[string]int{}, pendingPorts: map[int]int{}, giveBackTime: giveBackTime,
	}
	a.metrics = newMetrics(a)
	return a, nil
}

// Allocate implements api.ServiceAllocator.
func (a *Allocator) Allocate(ctx context.Context, new, old *corev1.Service, dryRun bool) (func(api.Outcome), error) {
	t := &transaction{allocator: a, detached: context.WithoutCancel(ctx), new: new, old: old, dryRun: dryRun}
	if new == nil {
		return t.end, nil
	}
	if old != nil {
		core.FillAllocated(new, old)
	}
	core.SyncClusterIPs(new, old)
	if err := a.families(new, old); err != nil {
		return nil, err
	}
	var cancel context.CancelFunc
	t.ctx, cancel = inTime(ctx, t.detached)
	defer cancel()
	err := t.takeAddresses(new, old)
	if err == nil {
		err = t.takePorts(new, old)
	}
	if err != nil {
		t.end(api.NotStored)
		return nil, err
	}
	return t.end, nil
}

// inTime is detached from a request, whose client may go away, but not from the time that it has.
func inTime(ctx, detached context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, end)
	}
	return detached, func() {}
}

// giveBackTime is how long giving back may keep an answer waiting whose time may be over.
const giveBackTime = 2 * time.Second

// transaction is what one write takes and gives back.
type transaction struct {
	allocator *Allocator
	detached  context.Context // from the request
	ctx       context.Context // what is done now
	new, old  *corev1.Service
	dryRun    bool

	takenIPs   []netip.Addr
	takenPorts []int
}

// end keeps the allocations and releases what is no longer used, or the other way round. Where the stored service is
// unknown, all stays allocated until a repair finds the users.
func (t *transaction) end(outcome api.Outcome) {
	a := t.allocator
	a.hold(t.takenIPs, t.takenPorts, -1)
	if t.dryRun || outcome == api.Unsure {
		return
	}
	stored := outcome == api.Stored
	ips, ports := t.takenIPs, t.takenPorts
	if stored {
		ips, ports = t.unused()
	}
	owner := t.new
	if stored {
		owner = t.old
	}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeout(t.detached, a.giveBackTime)
	defer cancel()
	log := klog.FromContext(t.ctx)
	for _, ip := range ips {
		if err := a.addresses.release(t.ctx, ip, owner); err != nil {
			log.Error(err, "Cluster IP stays allocated until the next repair", "ip", ip)
		}
	}
	if len(ports) > 0 {
		if err := a.ports.release(t.ctx, ports); err != nil {
			log.Error(err, "Node ports stay allocated until the next repair", "ports", ports)
		}
	}
	if stored && t.new == nil {
		t.removeEndpoints()
	}
}

// unused is what the old service had and the new one, as it was stored, has not.
func (t *transaction) unused() (ips []netip.Addr, ports []int) {
	if t.old == nil {
		return nil, nil
	}
	var kept []netip.Addr
	var keptPorts []int
	if t.new != nil {
		kept, keptPorts = clusterIPs(t.new), portsOf(t.new)
	}
	for _, ip := range clusterIPs(t.old) {
		if !slices.Contains(kept, ip) {
			ips = append(ips, ip)
		}
	}
	for _, p := range portsOf(t.old) {
		if !slices.Contains(keptPorts, p) {
			ports = append(ports, p)
			keptPorts = append(keptPorts, p) // once is enough
		}
	}
	return ips, ports
}

// removeEndpoints takes the endpoints along with their service, so that the next service of that name doesn't start
// with them.
func (t *transaction) removeEndpoints() {
	err := t.allocator.Objects.Delete(t.ctx, endpoints, t.old.Namespace, t.old.Name, "")
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(t.ctx).Error(err, "Failed to delete endpoints of deleted service", "service", klog.KObj(t.old))
	}
}

// hold counts what writes in flight have taken.
func (a *Allocator) hold(ips []netip.Addr, ports []int, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		if a.pendingIPs[ip.String()] += by; a.pendingIPs[ip.String()] <= 0 {
			delete(a.pendingIPs, ip.String())
		}
	}
	for _, p := range ports {
		if a.pendingPorts[p] += by; a.pendingPorts[p] <= 0 {
			delete(a.pendingPorts, p)
		}
	}
}

// clusterIPs are the addresses that a service has taken.
func clusterIPs(s *corev1.Service) []netip.Addr {
	if !core.NeedsClusterIP(s) {
		return nil
	}
	list := s.Spec.ClusterIPs
	if len(list) == 0 && s.Spec.ClusterIP != "" {
		list = []string{s.Spec.ClusterIP}
	}
	var out []netip.Addr
	for _, text := range list {
		// as releases of old wrote them; "None" is none
		if ip, ok := netip.AddrFromSlice(utilnet.ParseIPSloppy(text)); ok {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// portsOf are the ports on nodes that a service has taken, also those that it keeps without needing them.
func portsOf(s *corev1.Service) []int {
	var out []int
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			out = append(out, int(p.NodePort))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		out = append(out, int(s.Spec.HealthCheckNodePort))
	}
	return out
}
