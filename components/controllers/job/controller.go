// Package job runs pods until a given number has succeeded
// (https://kubernetes.io/docs/concepts/workloads/controllers/job/).
package job

import (
	"context"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/consistency"
	"quintet.dev/quintet/components/controllers/expectations"
	"quintet.dev/quintet/components/controllers/memory"
	"quintet.dev/quintet/components/controllers/owned"
	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

var kind = batch.SchemeGroupVersion.WithKind("Job")

// Controller reconciles Jobs.
type Controller struct {
	env     runner.Env
	jobs    batchlisters.JobLister
	all     corelisters.PodLister
	pods    *pods.Index
	pending *expectations.Tracker
	writes  *consistency.Writes
	metrics metrics
	// deleted are deletions by their job. After another leader's, pods are replaced a little early, as upstream's are.
	deleted memory.Memory[types.UID, time.Time]
	loop    *runner.Loop[string] // of jobs, and of pods without one: "pod:namespace/name"
}

const (
	podKey   = "pod:"
	resource = "jobs"
)

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	jobs, all := env.Informers.Batch().V1().Jobs(), env.Informers.Core().V1().Pods()
	c := &Controller{env: env, jobs: jobs.Lister(), all: all.Lister(), pods: index,
		pending: expectations.New(env.Clock), metrics: newMetrics(env),
		writes: consistency.New(env, "job_controller", map[string]cache.SharedIndexInformer{
			resource: jobs.Informer(), consistency.Pods: all.Informer(),
		})}
	c.loop = runner.NewLoop("job", env, c.reconcile)
	if err := c.loop.Watch(jobs.Informer(), runner.Handle(c.jobChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(all.Informer(), runner.Handle(c.podChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) jobChanged(old, new *batch.Job) {
	if by := ptr.Deref(runner.Last(old, new).Spec.ManagedBy, batch.JobControllerName); old == nil &&
		by != batch.JobControllerName {
		c.metrics.elsewhere.WithLabelValues(by).Inc()
	}
	job := runner.Last(old, new)
	c.loop.Add(runner.Key(job))
	if new == nil { // its pods still have the tracking finalizer
		c.pending.Forget(runner.Key(job))
		c.deleted.Forget(runner.Key(job))
		c.writes.Forget(runner.Key(job), job.UID)
		for _, pod := range c.pods.ControlledBy(job.UID) {
			c.loop.Add(podKey + runner.Key(pod))
		}
	}
}

func (c *Controller) podChanged(old, new *v1.Pod) {
	c.metrics.podChanged(old, new)
	pod := runner.Last(old, new)
	ref := metav1.GetControllerOfNoCopy(pod)
	if new != nil {
		for _, job := range c.concerned(old, new) {
			c.loop.Add(runner.Key(job))
		}
	}
	if ref == nil || ref.Kind != kind.Kind {
		if new != nil && tracked(new) {
			c.loop.Add(podKey + runner.Key(new))
		}
		return
	}
	job := c.owner(pod.Namespace, ref)
	if job == nil {
		if new != nil && tracked(new) {
			c.loop.Add(podKey + runner.Key(new))
		}
		return
	}
	key := runner.Key(job)
	switch {
	case new == nil || new.DeletionTimestamp != nil:
		c.pending.DeletionObserved(key, pod.UID)
	case old == nil:
		c.pending.CreationObserved(key)
	}
	c.loop.Add(key)
}

// concerned are the jobs to which a change of a pod matters that it doesn't name as its owner: the one that it has
// left, and those that may adopt it.
func (c *Controller) concerned(old, pod *v1.Pod) []*batch.Job {
	var left, takers []*batch.Job
	var before *metav1.OwnerReference
	now := metav1.GetControllerOfNoCopy(pod)
	if old != nil {
		before = metav1.GetControllerOfNoCopy(old)
	}
	if before != nil && before.Kind == kind.Kind && (now == nil || now.UID != before.UID) {
		if job := c.owner(old.Namespace, before); job != nil {
			left = append(left, job)
		}
	}
	unchanged := old != nil && before == nil && equality.Semantic.DeepEqual(old.Labels, pod.Labels)
	if now != nil || pod.DeletionTimestamp != nil || unchanged {
		return left
	}
	all, err := c.jobs.Jobs(pod.Namespace).List(labels.Everything())
	if err != nil {
		return left
	}
	for _, job := range all {
		selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			takers = append(takers, job)
		}
	}
	return append(left, takers...)
}

func (c *Controller) owner(namespace string, ref *metav1.OwnerReference) *batch.Job {
	job, err := c.jobs.Jobs(namespace).Get(ref.Name)
	if err != nil || job.UID != ref.UID {
		return nil
	}
	return job
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	if name, isPod := strings.CutPrefix(key, podKey); isPod {
		return c.freePod(ctx, name)
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	if err := c.writes.Seen(key); err != nil {
		return err
	}
	job, err := c.jobs.Jobs(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.pending.Forget(key)
		c.writes.Forget(key, "")
		c.deleted.Forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if ptr.Deref(job.Spec.ManagedBy, batch.JobControllerName) != batch.JobControllerName {
		return nil
	}
	began, expectationsMet := c.env.Clock.Now(), c.pending.Satisfied(key)
	mine, err := c.claim(ctx, job)
	if err != nil {
		return err
	}
	p := decide(observed{job: job, pods: mine, expectationsMet: expectationsMet, deletions: c.deleted.Of(key),
		now: c.env.Clock.Now()})
	c.deleted.Add(key, p.deletions, nil)
	err = c.apply(ctx, key, job, p)
	c.metrics.observe(job, p, c.env.Clock.Since(began), err)
	if err != nil {
		return err
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return nil
}

func (c *Controller) claim(ctx context.Context, job *batch.Job) ([]*v1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, err
	}
	claimer := owned.Claimer[*v1.Pod]{
		Owner:      job,
		Kind:       kind,
		Finalizers: []string{batch.JobTrackingFinalizer},
		Fresh: func(ctx context.Context) (metav1.Object, error) {
			return c.env.Client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		},
		Patch: c.control().Patcher(runner.Key(job), job.UID),
	}
	return claimer.Claim(ctx, selector, append(c.pods.ControlledBy(job.UID), c.pods.Orphans(job.Namespace)...))
}

// freePod takes the finalizer off a pod whose job is gone, so that it can go, too.
func (c *Controller) freePod(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	pod, err := c.all.Pods(namespace).Get(name)
	if err != nil || !tracked(pod) {
		return runner.IgnoreGone(err)
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.Kind != kind.Kind || c.owner(namespace, ref) != nil {
			return nil
		}
		found, err := c.env.Client.BatchV1().Jobs(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil && found.UID == ref.UID {
			return nil // seen later
		}
		if runner.IgnoreGone(err) != nil {
			return err
		}
	}
	return c.release(ctx, nil, pod)
}

// writeStatus does nothing if the status is what it should be.
func (c *Controller) writeStatus(ctx context.Context, job *batch.Job, next batch.JobStatus) error {
	if equality.Semantic.DeepEqual(job.Status, next) {
		return nil
	}
	changed := job.DeepCopy()
	changed.Status = next
	written, err := c.env.Client.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		c.writes.Wrote(runner.Key(job), job.UID, resource, written.ResourceVersion)
		c.metrics.wrote(job, &next)
	}
	return runner.IgnoreGone(err)
}

// control creates and deletes pods.
func (c *Controller) control() pods.Control {
	return pods.Control{Client: c.env.Client, Events: c.env.Events, Pending: c.pending, Writes: c.writes}
}
