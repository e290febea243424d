// Package nodeipam gives every node its own range of pod addresses, in spec.podCIDR and spec.podCIDRs. All that it
// knows is in the nodes: after a restart it continues from there.
package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

// Options configure the ranges to allocate.
type Options struct {
	// ClusterCIDRs are at most one range of each address family.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs are kept free where they lie within ClusterCIDRs.
	ServiceCIDRs []netip.Prefix
	// MaskIPv4 and MaskIPv6 are the prefix lengths of a node's range.
	MaskIPv4, MaskIPv6 int
}

// Controller allocates pod CIDRs.
type Controller struct {
	env   runner.Env
	nodes corelisters.NodeLister
	loop  *runner.Loop[string]

	mu         sync.Mutex
	allocators []*allocator
	held       map[string]holding // what each node was seen with, or given
}

type holding struct {
	uid   types.UID
	cidrs []netip.Prefix
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, o Options) (*Controller, error) {
	env.Workers = max(env.Workers, 1)
	c := &Controller{env: env, nodes: env.Informers.Core().V1().Nodes().Lister(), held: map[string]holding{}}
	metrics := newMetrics(env)
	for _, cidr := range o.ClusterCIDRs {
		mask := o.MaskIPv4
		if cidr.Addr().Is6() {
			mask = o.MaskIPv6
		}
		a, err := newAllocator(cidr, mask, metrics)
		if err != nil {
			return nil, err
		}
		for _, service := range o.ServiceCIDRs {
			a.occupy(service)
		}
		c.allocators = append(c.allocators, a)
	}
	c.loop = runner.NewLoop("cidrallocator_node", env, c.reconcile)
	// The handler sees every existing node before the first key is reconciled: no range in use is given out again.
	err := c.loop.Watch(env.Informers.Core().V1().Nodes().Informer(), runner.Handle(c.nodeChanged))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) nodeChanged(old, new *v1.Node) {
	if new != nil {
		c.observe(new)
	}
	c.loop.Add(runner.Last(old, new).Name)
}

// observe notes the ranges the node has.
func (c *Controller) observe(node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held, ok := c.held[node.Name]; ok && held.uid != node.UID {
		c.free(node.Name)
	}
	cidrs := parse(node)
	if len(cidrs) == 0 {
		return
	}
	for _, cidr := range cidrs {
		for _, a := range c.allocators {
			a.occupy(cidr)
		}
	}
	c.held[node.Name] = holding{uid: node.UID, cidrs: cidrs}
}

// free gives the ranges of the node back. The caller holds the lock.
func (c *Controller) free(name string) {
	for _, cidr := range c.held[name].cidrs {
		for _, a := range c.allocators {
			a.release(cidr)
		}
	}
	delete(c.held, name)
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.free(name)
		return nil
	}
	if err != nil {
		return err
	}
	if len(node.Spec.PodCIDRs) > 0 {
		return nil // observed already; what others gave out is left as it is
	}
	cidrs, err := c.reserve(node)
	if err != nil {
		c.env.Events.Eventf(reference(node), v1.EventTypeNormal, "CIDRNotAvailable",
			"Node %s status is now: CIDRNotAvailable", node.Name)
		return err
	}
	if err := c.write(ctx, node, cidrs); err != nil {
		return fmt.Errorf("give node %s its pod CIDR: %w", name, err)
	}
	klog.FromContext(ctx).Info("Gave node its pod CIDR", "node", name, "podCIDRs", cidrs)
	return nil
}

// reserve returns the ranges reserved for the node, or a new range of each family.
func (c *Controller) reserve(node *v1.Node) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.held[node.Name]
	if !ok {
		held.uid = node.UID
		for _, a := range c.allocators {
			cidr, ok := a.allocate()
			if !ok {
				for i, taken := range held.cidrs {
					c.allocators[i].release(taken)
				}
				return nil, fmt.Errorf("cluster CIDR %s has no free range for node %s: enlarge it, or lengthen the node mask",
					a.cidr, node.Name)
			}
			held.cidrs = append(held.cidrs, cidr)
		}
		c.held[node.Name] = held
	}
	cidrs := make([]string, 0, len(held.cidrs))
	for _, cidr := range held.cidrs {
		cidrs = append(cidrs, cidr.String())
	}
	return cidrs, nil
}

// write keeps the reservation if the outcome is unknown: the write may have arrived. The next try repeats it, or
// finds the node with it.
func (c *Controller) write(ctx context.Context, node *v1.Node, cidrs []string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}})
	if err != nil {
		return err
	}
	_, err = c.env.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	if err == nil || apierrors.IsServerTimeout(err) || !isStatus(err) {
		return err
	}
	c.mu.Lock()
	c.free(node.Name)
	c.mu.Unlock()
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.env.Events.Eventf(reference(node), v1.EventTypeNormal, "CIDRAssignmentFailed",
		"Node %s status is now: CIDRAssignmentFailed", node.Name)
	return err
}

func isStatus(err error) bool { return apierrors.ReasonForError(err) != "" }

// reference names the node as the subject of events the way the kubelet does: by its name instead of its UID.
func reference(node *v1.Node) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}
}

func parse(node *v1.Node) []netip.Prefix {
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 && node.Spec.PodCIDR != "" {
		texts = []string{node.Spec.PodCIDR}
	}
	var cidrs []netip.Prefix
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil && !slices.Contains(cidrs, cidr) {
			cidrs = append(cidrs, cidr)
		}
	}
	return cidrs
}
