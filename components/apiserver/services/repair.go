package services

import (
	"context"
	"math/big"
	"net/netip"

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

// Run repairs at once and then from time to time, until ctx ends.
func (a *Allocator) Run(ctx context.Context) error {
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
	owners := map[string]*corev1.Service{}
	used := map[int]bool{}
	for _, s := range list {
		for _, ip := range clusterIPs(s) {
			owners[ip.String()] = s
		}
		for _, p := range portsOf(s) {
			used[p] = true
		}
	}
	if err := a.repairAddresses(ctx, owners); err != nil {
		return err
	}
	if err := a.repairPorts(ctx, used); err != nil {
		a.metrics.repairErrors.Inc()
		return err
	}
	return nil
}

func (a *Allocator) repairAddresses(ctx context.Context, owners map[string]*corev1.Service) error {
	list, err := objects.ListAs[*networkingv1.IPAddress](a.Objects.List(ctx, ipAddresses, ""))
	if err != nil {
		return err
	}
	known := map[string]bool{}
	now := map[string]types.UID{}
	for _, obj := range list {
		known[obj.Name] = true
		if owners[obj.Name] != nil || obj.Labels[networkingv1.LabelManagedBy] != managedBy || a.isPendingIP(obj.Name) {
			continue
		}
		if uid, suspect := a.suspects.ips[obj.Name]; !suspect || uid != obj.UID { // or it was given anew
			now[obj.Name] = obj.UID
			continue
		}
		err := a.Objects.Delete(ctx, ipAddresses, "", obj.Name, obj.UID)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another server may have been faster
			return err
		}
	}
	a.suspects.ips = now
	for text, owner := range owners {
		if known[text] {
			continue
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if _, err := a.Objects.Create(ctx, ipAddresses, addressObject(ip, owner)); err != nil {
			klog.FromContext(ctx).V(2).Info("Address of a service was not written down again", "ip", text, "err", err)
		}
	}
	return nil
}

func (a *Allocator) repairPorts(ctx context.Context, used map[int]bool) error {
	var now map[int]bool
	err := a.Ranges.Update(ctx, func(bits *big.Int) error {
		now = map[int]bool{}
		for i := range a.NodePorts {
			port := a.FirstNodePort + i
			switch {
			case used[port]:
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
	if err == nil {
		a.suspects.ports = now
	}
	return err
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
