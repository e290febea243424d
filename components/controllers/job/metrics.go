package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// metrics are those of upstream's controller.
type metrics struct {
	took                                            *prometheus.HistogramVec
	syncs, finished, elsewhere, counted, terminated *prometheus.CounterVec
	created                                         *prometheus.CounterVec
}

func newMetrics(env runner.Env) metrics {
	const subsystem = "job_controller"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return env.Counter(subsystem, name, help, labels...)
	}
	return metrics{
		took: env.Histogram(subsystem, "job_sync_duration_seconds", "How long a Job took, by what was done.",
			prometheus.ExponentialBuckets(0.004, 2, 15), "completion_mode", "result", "action"),
		syncs:     counter("job_syncs_total", "Jobs looked at, by what was done.", "completion_mode", "result", "action"),
		finished:  counter("jobs_finished_total", "Jobs that finished.", "completion_mode", "result", "reason"),
		elsewhere: counter("jobs_by_external_controller_total", "Jobs of other controllers.", "controller_name"),
		counted: counter("job_pods_finished_total", "Pods that finished and are counted in their Job.",
			"completion_mode", "result"),
		terminated: counter("terminated_pods_tracking_finalizer_total",
			"Ended pods that have the tracking finalizer (add), or have it no more (delete).", "event"),
		created: counter("job_pods_creation_total", "Pods created, by reason and outcome.", "reason", "status"),
	}
}

// mode is the completion mode of a Job.
func mode(job *batch.Job) string {
	return string(ptr.Deref(job.Spec.CompletionMode, batch.NonIndexedCompletion))
}

// observe counts what was done for a Job.
func (m metrics) observe(job *batch.Job, p plan, took time.Duration, err error) {
	action, result := "reconciling", "success"
	switch {
	case len(p.delete) > 0:
		action = "pods_deleted"
	case len(p.create) > 0:
		action = "pods_created"
	case len(p.release) > 0:
		action = "tracking"
	}
	if err != nil {
		result = "error"
	}
	m.syncs.WithLabelValues(mode(job), result, action).Inc()
	m.took.WithLabelValues(mode(job), result, action).Observe(took.Seconds())
	if len(p.create) > 0 {
		m.created.WithLabelValues(creationReason(job), map[string]string{"success": "succeeded", "error": "failed"}[result]).
			Add(float64(len(p.create)))
	}
}

// wrote counts what became of a Job with a status that was written.
func (m metrics) wrote(job *batch.Job, next *batch.JobStatus) {
	count := func(result string, now, before int32) {
		if now > before {
			m.counted.WithLabelValues(mode(job), result).Add(float64(now - before))
		}
	}
	count("succeeded", next.Succeeded, job.Status.Succeeded)
	count("failed", next.Failed, job.Status.Failed)
	before, _ := end(&job.Status)
	if condition, now := end(next); now != "" && before == nil {
		m.finished.WithLabelValues(mode(job), now, condition.Reason).Inc()
	}
}

// end returns the condition with which a Job finished, and what it comes to; nil if it has not.
func end(status *batch.JobStatus) (*batch.JobCondition, string) {
	for i := range status.Conditions {
		switch c := &status.Conditions[i]; {
		case c.Status != v1.ConditionTrue:
		case c.Type == batch.JobComplete:
			return c, "succeeded"
		case c.Type == batch.JobFailed:
			return c, "failed"
		}
	}
	return nil, ""
}

// creationReason is why pods of the Job are made: upstream tells replacements apart by the Job's policy.
func creationReason(job *batch.Job) string {
	switch {
	case job.Status.Failed == 0 && ptr.Deref(job.Status.Terminating, 0) == 0:
		return "new"
	case ptr.Deref(job.Spec.PodReplacementPolicy, batch.TerminatingOrFailed) == batch.Failed:
		return "recreate_failed"
	}
	return "recreate_terminating_or_failed"
}

// podChanged counts pods that ended with the finalizer, and those that lost it.
func (m metrics) podChanged(old, new *v1.Pod) {
	was := old != nil && tracked(old) && pods.Ended(old)
	is := new != nil && tracked(new) && pods.Ended(new)
	switch {
	case is && !was:
		m.terminated.WithLabelValues("add").Inc()
	case was && !is:
		m.terminated.WithLabelValues("delete").Inc()
	}
}
