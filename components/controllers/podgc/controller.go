// Package podgc deletes pods that no other component deletes: terminated ones above a threshold, and those whose node
// is gone or out of service (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection).
package podgc

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

const (
	period = 20 * time.Second
	// quarantine is how long a node must be missing: it may be about to register.
	quarantine = 40 * time.Second
)

// Controller collects pods.
type Controller struct {
	deleted, failed *prometheus.CounterVec
	env             runner.Env
	threshold       int
	pods            corelisters.PodLister
	nodes           corelisters.NodeLister
	synced          []cache.InformerSynced
	absent          map[string]time.Time // since when a node has been missing
}

// New makes the controller; threshold is how many ended pods may stay. It starts working with Run.
func New(env runner.Env, threshold int) (*Controller, error) {
	core := env.Informers.Core().V1()
	return &Controller{
		env: env, threshold: threshold, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
		synced: []cache.InformerSynced{core.Pods().Informer().HasSynced, core.Nodes().Informer().HasSynced},
		absent: map[string]time.Time{},
		deleted: env.Counter("pod_gc_collector", "force_delete_pods_total",
			"Pods deleted without a grace period, by namespace and reason.", "namespace", "reason"),
		failed: env.Counter("pod_gc_collector", "force_delete_pod_errors_total",
			"Failed deletions of pods, by namespace and reason.", "namespace", "reason"),
	}, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return ctx.Err()
	}
	runner.Every(ctx, c.env.Clock, period, c.collect)
	return ctx.Err()
}

func (c *Controller) collect(ctx context.Context) {
	o, err := c.observe(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Pods not collected, will be tried again", "err", err)
		return
	}
	for _, d := range plan(o) {
		c.deleted.WithLabelValues(d.pod.Namespace, d.why).Inc()
		if err := c.delete(ctx, d); err != nil && ctx.Err() == nil {
			c.failed.WithLabelValues(d.pod.Namespace, d.why).Inc()
			klog.FromContext(ctx).V(2).Info("Pod not collected, will be tried again", "pod",
				klog.KObj(d.pod), "err", err)
		}
	}
}

func (c *Controller) observe(ctx context.Context) (observed, error) {
	o := observed{nodes: map[string]*v1.Node{}, missing: map[string]bool{}, threshold: c.threshold}
	var err error
	if o.pods, err = c.pods.List(labels.Everything()); err != nil {
		return o, err
	}
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return o, err
	}
	for _, node := range all {
		o.nodes[node.Name] = node
	}
	now := c.env.Clock.Now()
	still := map[string]time.Time{}
	for _, pod := range o.pods {
		name := pod.Spec.NodeName
		if _, done := still[name]; name == "" || o.nodes[name] != nil || done {
			continue
		}
		since, known := c.absent[name]
		if !known {
			since = now
		}
		still[name] = since
		if now.Sub(since) >= quarantine {
			// The cache may be stale; nothing is deleted by the cache alone.
			_, err := c.env.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			o.missing[name] = apierrors.IsNotFound(err)
		}
	}
	c.absent = still
	return o, nil
}

func (c *Controller) delete(ctx context.Context, d doomed) error {
	client := c.env.Client.CoreV1().Pods(d.pod.Namespace)
	if d.fail && !pods.Ended(d.pod) {
		patch := pods.FailPatch(d.pod)
		if d.reason != "" {
			patch = pods.DisruptionPatch(d.pod, d.reason, d.message, true, c.env.Clock.Now())
		}
		if _, err := client.Patch(ctx, d.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			return runner.IgnoreGone(err)
		}
	}
	err := client.Delete(ctx, d.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(d.pod.UID)),
	})
	return runner.IgnoreGone(err)
}
