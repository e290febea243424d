// Package cronjob starts Jobs at the times of a schedule
// (https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/).
package cronjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

var kind = batch.SchemeGroupVersion.WithKind("CronJob")

// Controller reconciles CronJobs.
type Controller struct {
	skew  *prometheus.HistogramVec
	env   runner.Env
	crons batchlisters.CronJobLister
	jobs  batchlisters.JobLister
	loop  *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	crons, jobs := env.Informers.Batch().V1().CronJobs(), env.Informers.Batch().V1().Jobs()
	c := &Controller{env: env, crons: crons.Lister(), jobs: jobs.Lister(),
		skew: env.Histogram("cronjob_controller", "job_creation_skew_duration_seconds",
			"How long after it was due a Job was created.", prometheus.ExponentialBuckets(1, 2, 10))}
	c.loop = runner.NewLoop("cronjob", env, c.reconcile)
	if err := c.loop.Watch(crons.Informer(), runner.Handle(func(old, new *batch.CronJob) {
		c.loop.Add(runner.Key(runner.Last(old, new)))
	})); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(jobs.Informer(), runner.Handle(func(old, new *batch.Job) {
		for _, job := range []*batch.Job{old, new} {
			if job == nil {
				continue
			}
			if ref := metav1.GetControllerOfNoCopy(job); ref != nil && ref.Kind == kind.Kind {
				c.loop.Add(job.Namespace + "/" + ref.Name)
			}
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	cron, err := c.crons.CronJobs(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	all, err := c.jobs.Jobs(namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	o := observed{cron: cron, now: c.env.Clock.Now()}
	for _, job := range all {
		if ref := metav1.GetControllerOfNoCopy(job); ref != nil && ref.UID == cron.UID {
			o.jobs = append(o.jobs, job)
		}
	}
	if o, err = c.catchUp(ctx, o); err != nil {
		return runner.IgnoreGone(err)
	}
	p := decide(o)
	if err := c.apply(ctx, o.cron, p); err != nil {
		return fmt.Errorf("cron job %s: %w", key, err)
	}
	if p.err != nil {
		klog.FromContext(ctx).Info("CronJob can't be scheduled until it is corrected", "cronJob", key, "err", p.err)
	}
	if p.again > 0 {
		c.loop.AddAfter(key, p.again)
	}
	return nil
}

// catchUp reads objects on which the informers disagree: one of them may lag behind the other, and a job that merely
// isn't known yet must not be taken for missing.
func (c *Controller) catchUp(ctx context.Context, o observed) (observed, error) {
	client := c.env.Client.BatchV1()
	for _, job := range o.jobs {
		if finished(job) != "" || isActive(o.cron, job) {
			continue
		}
		now, err := client.CronJobs(o.cron.Namespace).Get(ctx, o.cron.Name, metav1.GetOptions{})
		if err != nil {
			return o, err
		}
		if now.UID == o.cron.UID && isActive(now, job) {
			o.cron = now
		}
	}
	for _, ref := range o.cron.Status.Active {
		if slices.ContainsFunc(o.jobs, func(j *batch.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		job, err := client.Jobs(o.cron.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return o, err
		case job.UID == ref.UID:
			o.jobs = append(o.jobs, job)
		}
	}
	return o, nil
}

func (c *Controller) apply(ctx context.Context, cron *batch.CronJob, p plan) error {
	for _, n := range p.notes {
		c.env.Events.Event(cron, n.kind, n.reason, n.message)
	}
	for _, job := range p.forget {
		if err := c.remove(ctx, cron, job); err != nil {
			return err
		}
	}
	for _, job := range p.stop {
		if err := c.remove(ctx, cron, job); err != nil {
			return err
		}
	}
	if p.start != nil {
		job, err := c.start(ctx, cron, p.start)
		if err != nil || job == nil {
			return err
		}
		p.status.Active = append(p.status.Active, v1.ObjectReference{
			Kind: "Job", APIVersion: batch.SchemeGroupVersion.String(), Name: job.Name, Namespace: job.Namespace,
			UID: job.UID, ResourceVersion: job.ResourceVersion,
		})
	}
	if equality.Semantic.DeepEqual(cron.Status, p.status) {
		return nil
	}
	changed := cron.DeepCopy()
	changed.Status = p.status
	_, err := c.env.Client.BatchV1().CronJobs(cron.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

// observeSkew measures how late a Job was created.
func (c *Controller) observeSkew(job *batch.Job) {
	due, err := time.Parse(time.RFC3339, job.Annotations[batch.CronJobScheduledTimestampAnnotation])
	if err == nil {
		c.skew.WithLabelValues().Observe(job.CreationTimestamp.Sub(due).Seconds())
	}
}

// start returns nil, nil if no job can be started in a namespace that is going away. A job that was created
// before the status recorded it is adopted.
func (c *Controller) start(ctx context.Context, cron *batch.CronJob, wanted *batch.Job) (*batch.Job, error) {
	client := c.env.Client.BatchV1().Jobs(cron.Namespace)
	job, err := client.Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.env.Events.Eventf(cron, v1.EventTypeNormal, "SuccessfulCreate", "Created job %v", job.Name)
		c.observeSkew(job)
		return job, nil
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return nil, nil
	case apierrors.IsAlreadyExists(err):
		if job, err = client.Get(ctx, wanted.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if ref := metav1.GetControllerOfNoCopy(job); ref == nil || ref.UID != cron.UID {
			return nil, fmt.Errorf("job %s exists and is not of this cron job", job.Name)
		}
		return job, nil
	}
	c.env.Events.Eventf(cron, v1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
	return nil, err
}

func (c *Controller) remove(ctx context.Context, cron *batch.CronJob, job *batch.Job) error {
	background := metav1.DeletePropagationBackground
	err := c.env.Client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name,
		metav1.DeleteOptions{PropagationPolicy: &background})
	if err = runner.IgnoreGone(err); err != nil {
		c.env.Events.Eventf(cron, v1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return err
	}
	c.env.Events.Eventf(cron, v1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", job.Name)
	return nil
}
