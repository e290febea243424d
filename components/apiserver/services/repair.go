package services

import (
	"cmp"
	"context"
	"maps"
	"math/big"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/objects"
)

// suspects were taken and had no owner when Repair last looked. Only what is suspected twice is released: another API
// server may just be about to store the owner.
type suspects struct {
	ips   map[string]types.UID
	ports map[int]bool
}

// Run repairs at once and then from time to time, until ctx ends. What it finds is told to e.
func (a *Allocator) Run(ctx context.Context, e Events) error {
	a.events = e
	ticker := a.Clock.NewTicker(a.RepairEvery)
	defer ticker.Stop()
	for {
		if err := a.Repair(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Allocations of services were not repaired")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Repair makes what is written down as taken agree with the services: it takes what services use, and releases what was
// found without an owner by this call and by the one before.
func (a *Allocator) Repair(ctx context.Context) error {
	// To read one thing as it is now makes the caches as new as that: a server that lags behind would take the addresses of
	// services that it has not heard of.
	if _, err := a.Objects.Live(ctx, services, metav1.NamespaceDefault, "kubernetes"); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	list, err := objects.ListAs[*corev1.Service](a.Objects.List(ctx, services, ""))
	if err != nil {
		return err
	}
	c := count(list)
	if err := a.repairAddresses(ctx, c); err != nil {
		return err
	}
	if err := a.repairPorts(ctx, c); err != nil {
		a.metrics.repairErrors.Inc()
		return err
	}
	return nil
}

// census is who uses what, the oldest service first.
type census struct {
	names map[types.NamespacedName]bool
	ips   map[string][]*corev1.Service
	ports map[int][]*corev1.Service
}

func count(list []*corev1.Service) *census {
	slices.SortStableFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	c := &census{map[types.NamespacedName]bool{}, map[string][]*corev1.Service{}, map[int][]*corev1.Service{}}
	for _, s := range list {
		c.names[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
		for _, ip := range clusterIPs(s) {
			c.ips[ip.String()] = append(c.ips[ip.String()], s)
		}
		ports := portsOf(s)
		slices.Sort(ports)
		for _, p := range slices.Compact(ports) { // protocols share them
			c.ports[p] = append(c.ports[p], s)
		}
	}
	return c
}

func (a *Allocator) repairAddresses(ctx context.Context, c *census) error {
	list, err := objects.ListAs[*networkingv1.IPAddress](a.Objects.List(ctx, ipAddresses, ""))
	if err != nil {
		return err
	}
	known := map[string]bool{}
	now := map[string]types.UID{}
	for _, obj := range list {
		known[obj.Name] = true
		if users := c.ips[obj.Name]; len(users) > 0 {
			a.events.shared(obj, users)
			continue
		}
		if obj.Labels[networkingv1.LabelManagedBy] != managedBy || a.isPendingIP(obj.Name) {
			continue
		}
		if uid, suspect := a.suspects.ips[obj.Name]; !suspect || uid != obj.UID { // or it was given anew
			now[obj.Name] = obj.UID
			continue
		}
		err := a.Objects.Delete(ctx, ipAddresses, "", obj.Name, obj.UID)
		if err == nil {
			a.events.leaked(obj, c)
		} else if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another server may have been faster
			return err
		}
	}
	a.suspects.ips = now
	ranges := a.addresses.allRanges(ctx)
	for text, users := range c.ips {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
			a.events.outside(ip, users)
			continue // which is no range's
		}
		if known[text] {
			continue
		}
		if _, err := a.Objects.Create(ctx, ipAddresses, addressObject(ip, users[0])); err != nil {
			klog.FromContext(ctx).V(2).Info("Address of a service was not written down again", "ip", text, "err", err)
			continue
		}
		a.events.missing(ip, users[0])
	}
	return nil
}

func (a *Allocator) repairPorts(ctx context.Context, c *census) error {
	var now map[int]bool
	var missing []int
	err := a.Ranges.Update(ctx, func(bits *big.Int) error {
		now, missing = map[int]bool{}, nil
		for i := range a.NodePorts {
			port := a.FirstNodePort + i
			switch {
			case len(c.ports[port]) > 0:
				if bits.Bit(i) == 0 {
					missing = append(missing, port)
				}
				bits.SetBit(bits, i, 1)
			case bits.Bit(i) == 0 || a.isPendingPort(port):
			case a.suspects.ports[port]:
				bits.SetBit(bits, i, 0)
			default:
				now[port] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.suspects.ports = now
	for _, port := range missing {
		a.events.missingPort(port, c.ports[port][0])
	}
	for _, port := range slices.Sorted(maps.Keys(c.ports)) {
		if port < a.FirstNodePort || port >= a.FirstNodePort+a.NodePorts {
			a.events.outsidePort(port, a.FirstNodePort, a.FirstNodePort+a.NodePorts-1, c.ports[port])
		} else {
			a.events.sharedPort(port, c.ports[port])
		}
	}
	return nil
}

func (a *Allocator) isPendingIP(ip string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pendingIPs[ip] > 0
}

func (a *Allocator) isPendingPort(port int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pendingPorts[port] > 0
}
