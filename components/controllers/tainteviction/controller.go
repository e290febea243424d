// Package tainteviction deletes pods from nodes whose NoExecute taints they don't tolerate, or no longer
// (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions).
package tainteviction

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// Controller evicts by taint.
type Controller struct {
	deletions *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	env       runner.Env
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	index     *pods.Index
	loop      *runner.Loop[string]

	mu      sync.Mutex
	first   map[string]map[v1.Taint]time.Time // when a taint without a time was first seen, by node
	pending map[string]types.UID              // pods that are going to be deleted when their time has come
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	core := env.Informers.Core().V1()
	c := &Controller{
		env: env, nodes: core.Nodes().Lister(), pods: core.Pods().Lister(), index: index,
		first: map[string]map[v1.Taint]time.Time{}, pending: map[string]types.UID{},
		deletions: env.Counter("taint_eviction_controller", "pod_deletions_total", "Pods deleted because of taints."),
		latency: env.Histogram("taint_eviction_controller", "pod_deletion_duration_seconds",
			"How long after it was due a pod was deleted.",
			[]float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}),
	}
	c.loop = runner.NewLoop("noexec_taint_pod", env, c.reconcile)
	if err := c.loop.Watch(core.Nodes().Informer(), runner.Handle(c.nodeChanged)); err != nil {
		return nil, err
	}
	err = c.loop.Watch(core.Pods().Informer(), runner.Handle(func(old, new *v1.Pod) {
		pod := runner.Last(old, new)
		if old == nil || new == nil || old.Spec.NodeName != new.Spec.NodeName ||
			!equality.Semantic.DeepEqual(old.Spec.Tolerations, new.Spec.Tolerations) {
			c.loop.Add(runner.Key(pod))
		}
	}))
	return c, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) nodeChanged(old, new *v1.Node) {
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Spec.Taints, new.Spec.Taints) {
		return
	}
	node := runner.Last(old, new)
	c.remember(node.Name, new)
	for _, pod := range c.index.OnNode(node.Name) {
		c.loop.Add(runner.Key(pod))
	}
}

// remember notes since when the node has had taints that don't tell it themselves.
func (c *Controller) remember(name string, node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.first[name]
	delete(c.first, name)
	if node == nil {
		return
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != v1.TaintEffectNoExecute || taint.TimeAdded != nil {
			continue
		}
		at, known := before[taint]
		if !known {
			at = c.env.Clock.Now()
		}
		if c.first[name] == nil {
			c.first[name] = map[v1.Taint]time.Time{}
		}
		c.first[name][taint] = at
	}
}

// since tells from when on a pod has had to bear a taint: both must have been there.
func (c *Controller) since(pod *v1.Pod) func(v1.Taint) time.Time {
	bound := boundAt(pod)
	return func(taint v1.Taint) time.Time {
		added := c.addedAt(pod.Spec.NodeName, taint)
		if added.Before(bound) {
			return bound
		}
		return added
	}
}

func (c *Controller) addedAt(node string, taint v1.Taint) time.Time {
	if taint.TimeAdded != nil {
		return taint.TimeAdded.Time
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.first[node][taint]; ok {
		return at
	}
	return c.env.Clock.Now()
}

func boundAt(pod *v1.Pod) time.Time {
	if scheduled := pods.Condition(pod, v1.PodScheduled); scheduled != nil && scheduled.Status == v1.ConditionTrue {
		return scheduled.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := c.pods.Pods(namespace).Get(name)
	if err != nil || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		c.settle(key)
		return runner.IgnoreGone(err)
	}
	node, err := c.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		c.settle(key)
		return runner.IgnoreGone(err)
	}
	at, leave := deadline(node.Spec.Taints, pod.Spec.Tolerations, c.since(pod))
	if !leave {
		if c.settle(key) {
			c.env.Events.Eventf(pod, v1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
		}
		return nil
	}
	if wait := at.Sub(c.env.Clock.Now()); wait > 0 {
		c.mu.Lock()
		c.pending[key] = pod.UID
		c.mu.Unlock()
		c.loop.AddAfter(key, wait)
		return nil
	}
	c.settle(key)
	if err := c.evict(ctx, pod); err != nil {
		return err
	}
	c.deletions.WithLabelValues().Inc()
	c.latency.WithLabelValues().Observe(c.env.Clock.Since(at).Seconds())
	return nil
}

// settle forgets that the pod waited for its eviction, and tells whether it did.
func (c *Controller) settle(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waited := c.pending[key]
	delete(c.pending, key)
	return waited
}

func (c *Controller) evict(ctx context.Context, pod *v1.Pod) error {
	c.env.Events.Eventf(pod, v1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s",
		pod.Namespace, pod.Name)
	client := c.env.Client.CoreV1().Pods(pod.Namespace)
	patch := pods.DisruptionPatch(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
		false, c.env.Clock.Now())
	if _, err := client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		return runner.IgnoreGone(err)
	}
	err := client.Delete(ctx, pod.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
