// Package ttlafterfinished deletes Jobs some time after they finished
// (https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/).
package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/components/controllers/runner"
)

// Controller deletes finished Jobs.
type Controller struct {
	took *prometheus.HistogramVec
	env  runner.Env
	jobs batchlisters.JobLister
	loop *runner.Loop[string]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env) (*Controller, error) {
	jobs := env.Informers.Batch().V1().Jobs()
	c := &Controller{env: env, jobs: jobs.Lister(),
		took: env.Histogram("ttl_after_finished_controller", "job_deletion_duration_seconds",
			"How long after the end of its time to live a Job was deleted.", prometheus.ExponentialBuckets(0.1, 2, 14))}
	c.loop = runner.NewLoop("ttl_jobs_to_delete", env, c.reconcile)
	return c, c.loop.Watch(jobs.Informer(), runner.Handle(func(_, new *batch.Job) {
		if new != nil && new.Spec.TTLSecondsAfterFinished != nil {
			c.loop.Add(runner.Key(new))
		}
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// expires tells when the Job is to be deleted; never, if it is not finished or has no time to live.
func expires(job *batch.Job) (at time.Time, ever bool) {
	if job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batch.JobComplete || c.Type == batch.JobFailed) && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second), true
		}
	}
	return time.Time{}, false
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	job, err := c.jobs.Jobs(namespace).Get(name)
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if c.wait(key, job) {
		return nil
	}
	// The time to live may have been changed a moment ago, and a deletion can't be undone.
	client := c.env.Client.BatchV1().Jobs(namespace)
	fresh, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return runner.IgnoreGone(err)
	}
	if c.wait(key, fresh) {
		return nil
	}
	foreground := metav1.DeletePropagationForeground
	err = client.Delete(ctx, name, metav1.DeleteOptions{
		PropagationPolicy: &foreground,
		Preconditions:     &metav1.Preconditions{UID: &fresh.UID, ResourceVersion: &fresh.ResourceVersion},
	})
	if err = runner.IgnoreGone(err); err != nil {
		return fmt.Errorf("delete finished job %s: %w", key, err)
	}
	if at, ever := expires(fresh); ever {
		c.took.WithLabelValues().Observe(c.env.Clock.Since(at).Seconds())
	}
	return nil
}

// wait tells that there is nothing to do now, and requeues the Job for when there is.
func (c *Controller) wait(key string, job *batch.Job) bool {
	at, ever := expires(job)
	if !ever {
		return true
	}
	if left := at.Sub(c.env.Clock.Now()); left > 0 {
		c.loop.AddAfter(key, left)
		return true
	}
	return false
}
