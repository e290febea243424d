// Package devicetainteviction deletes pods that use devices with NoExecute taints which their claims don't tolerate, or
// no longer, and tells in the status of DeviceTaintRules how far that is
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations).
package devicetainteviction

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	ruleslisters "k8s.io/client-go/listers/resource/v1beta2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

const (
	byPool = "devicetainteviction.pool"
	// eventReason is that of all events.
	eventReason = "DeviceTaintManagerEviction"
	// statusPeriod is how long the status of a rule waits for further evictions.
	statusPeriod = 10 * time.Second
)

// key is a pod, or a rule, which has no namespace.
type key struct{ namespace, name string }

// Controller evicts by taints of devices.
type Controller struct {
	env    runner.Env
	pods   corelisters.PodLister
	claims resourcelisters.ResourceClaimLister
	slices cache.Indexer
	rules  ruleslisters.DeviceTaintRuleLister // nil if rules don't count
	loop   *runner.Loop[key]

	deletions prometheus.Counter
	latency   prometheus.Histogram

	mu      sync.Mutex
	pending map[key]types.UID // pods that are going to be deleted when their time has come
	evicted map[types.UID]int // pods by rule
}

// New makes the controller; it starts working with Run. DeviceTaintRules count if rules is true.
func New(env runner.Env, rules bool, registry prometheus.Registerer) (*Controller, error) {
	devices, corePods := env.Informers.Resource().V1(), env.Informers.Core().V1().Pods()
	slices := devices.ResourceSlices().Informer()
	if err := slices.AddIndexers(cache.Indexers{byPool: poolKey}); err != nil {
		return nil, err
	}
	c := &Controller{
		env: env, pods: corePods.Lister(), claims: devices.ResourceClaims().Lister(), slices: slices.GetIndexer(),
		pending: map[key]types.UID{}, evicted: map[types.UID]int{},
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "device_taint_eviction_controller_pod_deletions_total",
			Help: "Pods deleted because of taints of devices.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "device_taint_eviction_controller_pod_deletion_duration_seconds",
			Help:    "Seconds from when a taint takes effect on a pod to the pod's deletion.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
	if registry != nil {
		if err := errors.Join(registry.Register(c.deletions), registry.Register(c.latency)); err != nil {
			return nil, err
		}
	}
	c.loop = runner.NewLoop("device_taint_eviction", env, c.reconcile)
	err := errors.Join(
		c.loop.Watch(corePods.Informer(), runner.Handle(c.podChanged)),
		c.loop.Watch(devices.ResourceClaims().Informer(), runner.Handle(c.claimChanged)),
		c.loop.Watch(slices, runner.Handle(c.sliceChanged)))
	if rules {
		informer := env.Informers.Resource().V1beta2().DeviceTaintRules()
		c.rules = informer.Lister()
		err = errors.Join(err, c.loop.Watch(informer.Informer(), runner.Handle(c.ruleChanged)))
	}
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func poolKey(obj any) ([]string, error) {
	if slice, ok := obj.(*resourcev1.ResourceSlice); ok {
		return []string{pool(slice.Spec.Driver, slice.Spec.Pool.Name)}, nil
	}
	return nil, nil
}

func pool(driver, name string) string { return driver + "/" + name }

func (c *Controller) podChanged(old, now *v1.Pod) {
	pod := runner.Last(old, now)
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	c.loop.Add(key{pod.Namespace, pod.Name})
}

func (c *Controller) claimChanged(old, now *resourcev1.ResourceClaim) {
	if old != nil {
		c.wakePods(old)
	}
	if now != nil {
		c.wakePods(now)
	}
}

// wakePods looks at the pods of a claim.
func (c *Controller) wakePods(claim *resourcev1.ResourceClaim) {
	for _, by := range claim.Status.ReservedFor {
		if by.Resource == "pods" && by.APIGroup == "" {
			c.loop.Add(key{claim.Namespace, by.Name})
		}
	}
}

func (c *Controller) sliceChanged(old, now *resourcev1.ResourceSlice) {
	slice := runner.Last(old, now)
	c.wakeUsers(func(result *resourcev1.DeviceRequestAllocationResult) bool {
		return result.Driver == slice.Spec.Driver && result.Pool == slice.Spec.Pool.Name
	})
}

func (c *Controller) ruleChanged(old, now *resourcev1beta2.DeviceTaintRule) {
	if now != nil {
		c.loop.Add(key{name: now.Name})
	} else {
		c.mu.Lock()
		delete(c.evicted, old.UID)
		c.mu.Unlock()
	}
	if old != nil && now != nil && old.Generation == now.Generation && old.UID == now.UID {
		return // the status only
	}
	c.wakeUsers(func(result *resourcev1.DeviceRequestAllocationResult) bool {
		return old != nil && matches(old, result.Driver, result.Pool, result.Device) ||
			now != nil && matches(now, result.Driver, result.Pool, result.Device)
	})
}

// wakeUsers looks at the pods of claims that have some devices.
func (c *Controller) wakeUsers(which func(*resourcev1.DeviceRequestAllocationResult) bool) {
	c.eachClaim(func(claim *resourcev1.ResourceClaim) {
		for i := range claim.Status.Allocation.Devices.Results {
			if which(&claim.Status.Allocation.Devices.Results[i]) {
				c.wakePods(claim)
				return
			}
		}
	})
}

func (c *Controller) reconcile(ctx context.Context, k key) error {
	if k.namespace == "" {
		return c.syncRule(ctx, k.name)
	}
	pod, err := c.pods.Pods(k.namespace).Get(k.name)
	if err != nil || !evictable(pod) {
		c.settle(k)
		return runner.IgnoreGone(err)
	}
	e := c.evictionOfPod(pod, c.taints)
	if !e.leave {
		if c.settle(k) {
			c.env.Events.Event(pod, v1.EventTypeNormal, eventReason, "Cancelling deletion")
		}
		return nil
	}
	for rule := range e.rules {
		c.tellOf(rule)
	}
	if wait := e.at.Sub(c.env.Clock.Now()); wait > 0 {
		c.mu.Lock()
		c.pending[k] = pod.UID
		c.mu.Unlock()
		c.loop.AddAfter(k, wait)
		return nil
	}
	c.settle(k)
	return c.evict(ctx, pod, e)
}

// settle forgets that the pod waited for its eviction, and tells whether it did.
func (c *Controller) settle(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waited := c.pending[k]
	delete(c.pending, k)
	return waited
}

// evictionOfPod tells when a pod has to go, by the claims that are reserved for it.
func (c *Controller) evictionOfPod(pod *v1.Pod, taints func(driver, pool, device string) []taint) eviction {
	var all eviction
	for _, name := range claimNames(pod) {
		claim, err := c.claims.ResourceClaims(pod.Namespace).Get(name)
		if err != nil || !resourceclaim.IsReservedForPod(pod, claim, false) {
			continue
		}
		if e := evictionOf(claim, taints); e.leave {
			all.add(e.at, e.rules.UnsortedList()...)
		}
	}
	return all
}

func claimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}

// evict marks the pod and deletes it.
func (c *Controller) evict(ctx context.Context, pod *v1.Pod, e eviction) error {
	c.env.Events.Event(pod, v1.EventTypeNormal, eventReason, "Marking for deletion")
	client := c.env.Client.CoreV1().Pods(pod.Namespace)
	patch := pods.DisruptionPatch(pod, "DeletionByDeviceTaintManager",
		"Device Taint manager: deleting due to NoExecute taint", false, c.env.Clock.Now())
	if _, err := client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		return runner.IgnoreGone(err)
	}
	err := client.Delete(ctx, pod.Name, *metav1.NewPreconditionDeleteOptions(string(pod.UID)))
	if err != nil {
		return runner.IgnoreGone(err)
	}
	c.deletions.Inc()
	c.latency.Observe(c.env.Clock.Since(e.at).Seconds())
	c.mu.Lock()
	for rule := range e.rules {
		c.evicted[rule]++
	}
	c.mu.Unlock()
	return nil
}
