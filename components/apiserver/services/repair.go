package services

import (
	"cmp"
	"context"
	"maps"
	"math/big"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/reconcile"
)

// Run repairs at once, then from time to time and whatever changes, until ctx ends. What it finds is told to e. It is
// called once.
func (a *Allocator) Run(ctx context.Context, e Events) error {
	loop := reconcile.New(reconcile.Config{Name: "service-allocations", Clock: a.Clock, MinDelay: retryPause,
		MaxDelay: time.Minute}, a.reconcile)
	a.events, a.queue = e, loop
	loop.Add(item{})
	both, running := errgroup.WithContext(ctx)
	both.Go(func() error { return loop.Run(running) })
	both.Go(func() error { return a.follow(running) })
	if err := both.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// Repair reconciles the allocations with the services: it allocates what services use, and releases addresses that no
// service uses, and ports that were unused in the previous rounds, too. Another API server may be about to store the
// service that uses them.
func (a *Allocator) Repair(ctx context.Context) error {
	// To read one thing as it is now makes the caches as new as that: a server that lags behind would take the
	// addresses of services that it has not heard of.
	if _, err := a.Objects.Live(ctx, services, metav1.NamespaceDefault, "kubernetes"); err != nil &&
		!apierrors.IsNotFound(err) {
		return err
	}
	list, err := a.oldestFirst(ctx)
	if err != nil {
		return err
	}
	if err := a.repairAddresses(ctx, list); err != nil {
		return err
	}
	if err := a.repairPorts(ctx, users(list)); err != nil {
		a.metrics.repairErrors.Inc()
		return err
	}
	return nil
}

// oldestFirst lists all services.
func (a *Allocator) oldestFirst(ctx context.Context) ([]*corev1.Service, error) {
	list, err := objects.ListAs[*corev1.Service](a.Objects.List(ctx, services, ""))
	slices.SortStableFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return list, err
}

// users are the services that use each port, in their order.
func users(list []*corev1.Service) map[int][]*corev1.Service {
	out := map[int][]*corev1.Service{}
	for _, s := range list {
		ports := portsOf(s)
		slices.Sort(ports)
		for _, p := range slices.Compact(ports) { // protocols share them
			out[p] = append(out[p], s)
		}
	}
	return out
}

func (a *Allocator) repairAddresses(ctx context.Context, list []*corev1.Service) error {
	ranges := a.addresses.allRanges(ctx)
	for _, s := range list {
		if err := a.repairService(ctx, s, ranges); err != nil {
			return err
		}
	}
	all, err := objects.ListAs[*networkingv1.IPAddress](a.Objects.List(ctx, ipAddresses, ""))
	if err != nil {
		return err
	}
	for _, obj := range all {
		if err := a.repairAddress(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// Prepare writes down which ports services use, so that no other service is given them: it is called before the first
// Allocate. It tries for a minute.
func (a *Allocator) Prepare(ctx context.Context) error {
	for range 60 {
		err := a.preparePorts(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		klog.FromContext(ctx).Error(err, "Failed to load node ports of services")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.Clock.After(time.Second):
		}
	}
	return a.preparePorts(ctx)
}

func (a *Allocator) preparePorts(ctx context.Context) error {
	list, err := a.oldestFirst(ctx)
	if err != nil {
		return err
	}
	users := users(list)
	missing, _, err := a.rebuildPorts(ctx, users)
	if err != nil {
		a.metrics.repairErrors.Inc()
		return err
	}
	a.suspects = nil // Run counts for how long they are unused
	for _, port := range missing {
		a.unreportedPorts = append(a.unreportedPorts, missingPort{port, users[port][0]})
	}
	return nil
}

// missingPort is a port that was not written down as its user's.
type missingPort struct {
	port int
	user *corev1.Service
}

// looksUntilFree is how often a port is seen without a user until it is free.
const looksUntilFree = 3

func (a *Allocator) repairPorts(ctx context.Context, users map[int][]*corev1.Service) error {
	missing, leaked, err := a.rebuildPorts(ctx, users)
	if err != nil {
		return err
	}
	for _, port := range missing {
		a.unreportedPorts = append(a.unreportedPorts, missingPort{port, users[port][0]})
	}
	for _, m := range a.unreportedPorts {
		a.events.missingPort(m.port, m.user)
	}
	count := a.metrics.portRepairs
	count.WithLabelValues("repair").Add(float64(len(a.unreportedPorts)))
	count.WithLabelValues("leak").Add(float64(leaked))
	a.unreportedPorts = nil
	for _, port := range slices.Sorted(maps.Keys(users)) {
		if port < a.FirstNodePort || port >= a.FirstNodePort+a.NodePorts {
			a.events.outsidePort(port, a.FirstNodePort, a.FirstNodePort+a.NodePorts-1, users[port])
			count.WithLabelValues("outOfRange").Add(float64(len(users[port])))
		} else {
			a.events.sharedPort(port, users[port])
			count.WithLabelValues("duplicate").Add(float64(len(users[port]) - 1))
		}
	}
	return nil
}

// rebuildPorts returns which ports were not written down, and how many were that had no user for long.
func (a *Allocator) rebuildPorts(ctx context.Context, users map[int][]*corev1.Service) (missing []int, leaked int,
	err error) {
	var now map[int]int
	err = a.Ranges.Rebuild(ctx, func(bits *big.Int) error {
		now, missing, leaked = map[int]int{}, nil, 0
		for i := range a.NodePorts {
			port := a.FirstNodePort + i
			switch {
			case len(users[port]) > 0:
				if bits.Bit(i) == 0 {
					missing = append(missing, port)
				}
				bits.SetBit(bits, i, 1)
			case bits.Bit(i) == 0 || a.isPendingPort(port):
			case a.suspects[port] == looksUntilFree-1:
				bits.SetBit(bits, i, 0)
				leaked++
			default:
				now[port] = a.suspects[port] + 1
			}
		}
		return nil
	})
	if err == nil {
		a.suspects = now
	}
	return missing, leaked, err
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
