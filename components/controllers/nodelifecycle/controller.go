// Package nodelifecycle listens for the heartbeats of nodes and taints those that are silent or unwell
// (https://kubernetes.io/docs/concepts/architecture/nodes/#node-status).
package nodelifecycle

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coordlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/nodes"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// evictionPeriod is how often it is asked whether one more node may be emptied, while nodes wait for that.
const evictionPeriod = 100 * time.Millisecond

// Options are upstream's flags of the same names.
type Options struct {
	MonitorPeriod      time.Duration
	MonitorGracePeriod time.Duration
	StartupGracePeriod time.Duration
	EvictionRate       float64 // nodes per second
	SecondaryRate      float64
	LargeCluster       int
	UnhealthyZoneShare float64
}

// Controller keeps conditions and taints of nodes in step.
type Controller struct {
	metrics metrics
	env     runner.Env
	o       Options
	rates   rates
	nodes   corelisters.NodeLister
	leases  coordlisters.LeaseLister
	pods    *pods.Index
	loop    *runner.Loop[string]
	synced  []cache.InformerSynced

	heartbeats map[string]*heartbeat // of the monitor alone
	more       chan struct{}         // has a token when another node waits

	mu      sync.Mutex
	waiting map[string]bool // nodes to be emptied when their zone's rate allows
	marked  map[string]bool // nodes whose pods were marked as not ready
	zones   map[string]zone
	blind   bool
	buckets map[string]*bucket
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, o Options) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	core, leases := env.Informers.Core().V1(), env.Informers.Coordination().V1().Leases()
	c := &Controller{
		env: env, metrics: newMetrics(env), o: o, nodes: core.Nodes().Lister(), leases: leases.Lister(), pods: index,
		rates: rates{Normal: o.EvictionRate, Secondary: o.SecondaryRate, Large: o.LargeCluster,
			Threshold: o.UnhealthyZoneShare},
		heartbeats: map[string]*heartbeat{}, more: make(chan struct{}, 1), waiting: map[string]bool{},
		marked:  map[string]bool{},
		buckets: map[string]*bucket{},
		synced: []cache.InformerSynced{core.Nodes().Informer().HasSynced, leases.Informer().HasSynced,
			core.Pods().Informer().HasSynced},
	}
	c.loop = runner.NewLoop("node_lifecycle_controller", env, c.reconcile)
	c.loop.Needs(core.Pods().Informer())
	err = c.loop.Watch(core.Nodes().Informer(), runner.Handle(func(old, new *v1.Node) {
		c.loop.Add(runner.Last(old, new).Name)
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.synced...) {
			runner.Every(ctx, c.env.Clock, c.o.MonitorPeriod, c.monitor)
		}
	})
	loops.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.synced...) {
			c.evictWaiting(ctx)
		}
	})
	err := c.loop.Run(ctx)
	loops.Wait()
	return err
}

// monitor evaluates the heartbeat of every node and the state of the zones.
func (c *Controller) monitor(ctx context.Context) {
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return
	}
	now := c.env.Clock.Now()
	known := map[string]bool{}
	for _, node := range all {
		began := c.env.Clock.Now()
		known[node.Name] = true
		lease, err := c.leases.Leases(v1.NamespaceNodeLease).Get(node.Name)
		if err != nil {
			lease = nil
		}
		if c.heartbeats[node.Name] == nil {
			c.env.Events.Eventf(nodes.Reference(node.Name), v1.EventTypeNormal, "RegisteredNode",
				"Node %s event: Registered Node %s in Controller", node.Name, node.Name)
		}
		next, conditions := evaluate(node, lease, c.heartbeats[node.Name],
			graces{startup: c.o.StartupGracePeriod, running: c.o.MonitorGracePeriod}, now)
		c.heartbeats[node.Name] = &next
		if conditions != nil {
			c.declareSilent(ctx, node, conditions)
		}
		c.metrics.each.WithLabelValues().Observe(c.env.Clock.Since(began).Seconds())
	}
	for name := range c.heartbeats {
		if !known[name] {
			delete(c.heartbeats, name)
			c.env.Events.Eventf(nodes.Reference(name), v1.EventTypeNormal, "RemovingNode",
				"Node %s event: Removing Node %s from Controller", name, name)
		}
	}
	c.surveyZones(all)
	c.metrics.survey(all)
	c.metrics.all.WithLabelValues().Observe(c.env.Clock.Since(now).Seconds())
}

func (c *Controller) declareSilent(ctx context.Context, node *v1.Node, conditions []v1.NodeCondition) {
	changed := node.DeepCopy()
	changed.Status.Conditions = conditions
	klog.FromContext(ctx).Info("Node has been silent for too long", "node", node.Name)
	if _, err := c.env.Client.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil &&
		ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Node status not updated, will be tried again", "node", node.Name, "err", err)
	}
}

func (c *Controller) surveyZones(all []*v1.Node) {
	c.mu.Lock()
	wasBlind := c.blind
	c.zones, c.blind = survey(all, c.o.UnhealthyZoneShare)
	changed := wasBlind != c.blind
	c.mu.Unlock()
	if changed { // eviction stops or starts for all
		for _, node := range all {
			c.loop.Add(node.Name)
		}
	}
}

// reconcile brings what follows from the node's conditions up to date.
func (c *Controller) reconcile(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, name)
		delete(c.marked, name)
		return nil
	}
	if err != nil {
		return err
	}
	add, remove := schedulingTaints(node)
	evict, cured := evictionTaints(node)
	c.mu.Lock()
	if c.blind {
		evict, cured = nil, []v1.Taint{notReady, unreachable}
	}
	if evict != nil && len(cured) > 0 { // from one kind of illness to the other: it is being emptied already
		add = append(add, *evict)
		evict = nil
	}
	if evict != nil {
		c.waiting[name] = true
		select {
		case c.more <- struct{}{}:
		default:
		}
	} else {
		delete(c.waiting, name)
	}
	c.mu.Unlock()
	taints, changed := nodes.WithTaints(node.Spec.Taints, add, append(remove, cured...),
		metav1.NewTime(c.env.Clock.Now()))
	if wanted := missingLabels(node); changed || wanted != nil {
		if err := nodes.Patch(ctx, c.env.Client, node, taints, wanted); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	return c.markPods(ctx, node)
}

// evictWaiting evicts whenever nodes wait for it, until ctx ends.
func (c *Controller) evictWaiting(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.more:
		}
		ticker := c.env.Clock.NewTicker(evictionPeriod)
		for c.evict(ctx); c.anyWaiting() && ctx.Err() == nil; c.evict(ctx) {
			select {
			case <-ctx.Done():
			case <-ticker.C():
			}
		}
		ticker.Stop()
	}
}

func (c *Controller) anyWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}

// evict taints waiting nodes as fast as the rates of their zones allow.
func (c *Controller) evict(ctx context.Context) {
	for name, from := range c.due() {
		node, err := c.nodes.Get(name)
		if err != nil {
			continue
		}
		add, remove := evictionTaints(node)
		if add == nil {
			continue
		}
		taints, changed := nodes.WithTaints(node.Spec.Taints, []v1.Taint{*add}, remove,
			metav1.NewTime(c.env.Clock.Now()))
		if !changed {
			continue
		}
		klog.FromContext(ctx).Info("Evicting the pods of a node", "node", name, "taint", add.Key)
		if err := nodes.Patch(ctx, c.env.Client, node, taints, nil); err != nil {
			c.giveBack(from)
			c.loop.AddAfter(name, evictionPeriod) // decide again
			continue
		}
		c.metrics.evictions.WithLabelValues(zoneLabel(node)).Inc()
	}
}

// due takes a token for each node that may be tainted now, and tells from where.
func (c *Controller) due() map[string]*bucket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind || c.zones == nil {
		return nil
	}
	due := map[string]*bucket{}
	for name := range c.waiting {
		node, err := c.nodes.Get(name)
		if err != nil {
			continue
		}
		zone := zoneOf(node)
		if c.buckets[zone] == nil {
			c.buckets[zone] = &bucket{}
		}
		from := c.buckets[zone]
		if from.take(c.rates.of(c.zones[zone]), c.env.Clock.Now()) {
			delete(c.waiting, name)
			due[name] = from
		}
	}
	return due
}

// giveBack returns the rate limiter token of a node that could not be tainted.
func (c *Controller) giveBack(to *bucket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.tokens++
}
