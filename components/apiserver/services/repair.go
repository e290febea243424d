package services

import (
	"cmp"
	"context"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	utilnet "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/core"
	"quintet.dev/quintet/components/apiserver/objects"
)

// suspects were taken and had no owner when Repair last looked. Only what is suspected twice is released: another API
// server may just be about to store the owner.
type suspects struct {
	ips   map[string]types.UID
	ports map[int]bool
}

// Run repairs at once and then from time to time, until ctx ends; an address that a service has lost is written down as soon as that
// is seen. What it finds is told to e.
func (a *Allocator) Run(ctx context.Context, e Events) error {
	a.events = e
	ticker := a.Clock.NewTicker(a.RepairEvery)
	defer ticker.Stop()
	failed := func(err error) {
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Allocations of services were not repaired")
		}
	}
	failed(a.Repair(ctx))
	lost := &losses{allocator: a, of: map[netip.Addr]types.NamespacedName{}, wake: make(chan struct{}, 1)}
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { failed(lost.follow(ctx)) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lost.wake:
			failed(lost.restore(ctx))
		case <-ticker.C():
			failed(a.Repair(ctx))
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
	// invalid are those with an address that is none, which only the store can bring.
	invalid []*corev1.Service
	ips     map[string][]*corev1.Service
	ports   map[int][]*corev1.Service
}

func count(list []*corev1.Service) *census {
	slices.SortStableFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	c := &census{names: map[types.NamespacedName]bool{}, ips: map[string][]*corev1.Service{}, ports: map[int][]*corev1.Service{}}
	for _, s := range list {
		c.names[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
		if core.NeedsClusterIP(s) && !headless(s) && slices.ContainsFunc(s.Spec.ClusterIPs, func(ip string) bool { return utilnet.ParseIPSloppy(ip) == nil }) {
			c.invalid = append(c.invalid, s)
		}
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
	for _, s := range c.invalid {
		a.events.invalid(s)
	}
	known := map[string]bool{}
	now := map[string]types.UID{}
	for _, obj := range list {
		known[obj.Name] = true
		if users := c.ips[obj.Name]; len(users) > 0 && !a.isPendingIP(obj.Name) {
			if user := c.wronged(obj, users); user != nil {
				if err := a.rewrite(ctx, obj, user); err != nil {
					return err
				}
				continue
			}
			if referred(obj, users) != nil {
				a.events.shared(obj, users)
				continue
			}
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
			known[obj.Name] = false
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
		a.writeDown(ctx, ip, users[0])
	}
	return nil
}

// writeDown writes down an address that a service was found without.
func (a *Allocator) writeDown(ctx context.Context, ip netip.Addr, s *corev1.Service) {
	if _, err := a.Objects.Create(ctx, ipAddresses, addressObject(ip, s)); err != nil {
		klog.FromContext(ctx).V(2).Info("Address of a service was not written down again", "ip", ip, "err", err)
		return
	}
	a.events.missing(ip, s)
}

// wronged is the user as whose an address is to be written down anew: it isn't marked as the allocator's, or is not of a service that
// there is. nil if it stays as it is, or is to go.
func (c *census) wronged(obj *networkingv1.IPAddress, users []*corev1.Service) *corev1.Service {
	if p := obj.Spec.ParentRef; !ofService(p) || !c.names[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] {
		return users[0]
	}
	if !marked(obj) {
		return cmp.Or(referred(obj, users), users[0])
	}
	return nil
}

// marked tells whether an address has the labels that the allocator gives.
func marked(obj *networkingv1.IPAddress) bool {
	ip, err := netip.ParseAddr(obj.Name)
	return err == nil && obj.Labels[networkingv1.LabelManagedBy] == managedBy && obj.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(ip))
}

// referred is the user as whose an address is written down.
func referred(obj *networkingv1.IPAddress, users []*corev1.Service) *corev1.Service {
	p := obj.Spec.ParentRef
	for _, s := range users {
		if ofService(p) && s.Namespace == p.Namespace && s.Name == p.Name {
			return s
		}
	}
	return nil
}

func ofService(p *networkingv1.ParentReference) bool {
	return p != nil && p.Group == "" && p.Resource == services.Resource
}

// rewrite writes an address down as that of its user. Who takes it in between shares it, which the next repair tells.
func (a *Allocator) rewrite(ctx context.Context, obj *networkingv1.IPAddress, user *corev1.Service) error {
	ip, err := netip.ParseAddr(obj.Name)
	if err != nil {
		return nil // which no service can have
	}
	if p := obj.Spec.ParentRef; !ofService(p) || p.Namespace != user.Namespace || p.Name != user.Name {
		a.events.foreign(ip, user)
	}
	if err := a.Objects.Delete(ctx, ipAddresses, "", obj.Name, obj.UID); err != nil && !apierrors.IsNotFound(err) {
		if apierrors.IsConflict(err) {
			return nil // another server was faster
		}
		return err
	}
	_, err = a.Objects.Create(ctx, ipAddresses, addressObject(ip, user))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
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
