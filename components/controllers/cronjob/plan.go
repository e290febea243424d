package cronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// observed is all that a decision depends on.
type observed struct {
	cron *batch.CronJob
	jobs []*batch.Job // the cron job's own
	now  time.Time
}

// note is an event about the cron job.
type note struct{ kind, reason, message string }

// plan is what to do, in order.
type plan struct {
	forget []*batch.Job // finished and more than the history may keep
	status batch.CronJobStatus
	stop   []*batch.Job // replaced by the new one
	start  *batch.Job   // nil: none is due
	notes  []note
	again  time.Duration // when to requeue; 0: no further run
	err    error         // the schedule is invalid; processed again when the cron job changes
}

// manyMissed is how many missed starts are worth a warning: a clock may be wrong.
const manyMissed = 100

func decide(o observed) plan {
	p := plan{status: *o.cron.Status.DeepCopy()}
	o.bookkeep(&p)
	p.forget = surplus(o)
	if o.cron.DeletionTimestamp != nil {
		return p
	}
	location := time.Local
	if o.cron.Spec.TimeZone != nil {
		var err error
		if location, err = time.LoadLocation(*o.cron.Spec.TimeZone); err != nil {
			p.warn("UnknownTimeZone", "invalid timeZone: %q: %v", *o.cron.Spec.TimeZone, err)
			p.err = err
			return p
		}
	}
	if ptr.Deref(o.cron.Spec.Suspend, false) {
		return p
	}
	times, err := parse(o.cron.Spec.Schedule, location)
	if err != nil {
		p.warn("UnparseableSchedule", "unparseable schedule: %q : %v", o.cron.Spec.Schedule, err)
		p.err = err
		return p
	}
	if times.next(o.now).IsZero() { // the 31st of February: in upstream's words
		p.warn("InvalidSchedule", "invalid schedule: %s : time difference between two schedules is less than 1 second",
			o.cron.Spec.Schedule)
		return p
	}
	o.due(&p, times)
	return p
}

func (p *plan) warn(reason, format string, args ...any) {
	p.notes = append(p.notes, note{v1.EventTypeWarning, reason, fmt.Sprintf(format, args...)})
}

func (p *plan) tell(reason, format string, args ...any) {
	p.notes = append(p.notes, note{v1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

// bookkeep brings the list of active jobs up to date.
func (o observed) bookkeep(p *plan) {
	var active []v1.ObjectReference
	for _, ref := range p.status.Active {
		at := slices.IndexFunc(o.jobs, func(j *batch.Job) bool { return j.UID == ref.UID })
		switch {
		case at < 0:
			p.tell("MissingJob", "Active job went missing: %v", ref.Name)
		case finished(o.jobs[at]) != "":
			p.tell("SawCompletedJob", "Saw completed job: %s, condition: %v", ref.Name, finished(o.jobs[at]))
		default:
			active = append(active, ref)
		}
	}
	for _, job := range o.jobs {
		switch condition := finished(job); {
		case condition == "" && !isActive(o.cron, job):
			p.warn("UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
		case condition == batch.JobComplete && job.Status.CompletionTime != nil:
			if last := p.status.LastSuccessfulTime; last == nil || last.Before(job.Status.CompletionTime) {
				p.status.LastSuccessfulTime = job.Status.CompletionTime
			}
		}
	}
	p.status.Active = active
}

func isActive(cron *batch.CronJob, job *batch.Job) bool {
	return slices.ContainsFunc(cron.Status.Active, func(ref v1.ObjectReference) bool { return ref.UID == job.UID })
}

// finished returns the condition by which the job has ended; empty if it has not.
func finished(job *batch.Job) batch.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batch.JobComplete || c.Type == batch.JobFailed) && c.Status == v1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// surplus returns the oldest finished jobs beyond those that the history keeps.
func surplus(o observed) []*batch.Job {
	var all []*batch.Job
	for kind, limit := range map[batch.JobConditionType]*int32{
		batch.JobComplete: o.cron.Spec.SuccessfulJobsHistoryLimit, batch.JobFailed: o.cron.Spec.FailedJobsHistoryLimit,
	} {
		if limit == nil {
			continue
		}
		var ended []*batch.Job
		for _, job := range o.jobs {
			if finished(job) == kind {
				ended = append(ended, job)
			}
		}
		slices.SortFunc(ended, func(a, b *batch.Job) int {
			return cmp.Or(began(a).Compare(began(b)), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, ended[:max(0, len(ended)-int(*limit))]...)
	}
	slices.SortFunc(all, func(a, b *batch.Job) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func began(job *batch.Job) time.Time {
	if job.Status.StartTime == nil {
		return job.CreationTimestamp.Time
	}
	return job.Status.StartTime.Time
}

// due plans the start of the last job that should have started.
func (o observed) due(p *plan, times schedule) {
	at, missed := o.last(times)
	if next := o.upcoming(times, at); !next.IsZero() {
		p.again = next.Sub(o.now) + 100*time.Millisecond // an early sync finds nothing due
	}
	if missed > manyMissed {
		p.warn("TooManyMissedTimes",
			"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if at.IsZero() {
		return
	}
	if limit := o.cron.Spec.StartingDeadlineSeconds; limit != nil &&
		at.Add(time.Duration(*limit)*time.Second).Before(o.now) {
		p.warn("MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
		return
	}
	name := jobName(o.cron, at)
	if slices.ContainsFunc(p.status.Active, func(ref v1.ObjectReference) bool { return ref.Name == name }) ||
		(o.cron.Status.LastScheduleTime != nil && o.cron.Status.LastScheduleTime.Time.Equal(at)) {
		return
	}
	running := o.running(p.status.Active)
	switch {
	case o.cron.Spec.ConcurrencyPolicy == batch.ForbidConcurrent && len(running) > 0:
		p.tell("JobAlreadyActive",
			"Not starting job because prior execution is running and concurrency policy is Forbid")
		return
	case o.cron.Spec.ConcurrencyPolicy == batch.ReplaceConcurrent:
		p.stop = running
		p.status.Active = nil
	}
	p.start = newJob(o.cron, name, at)
	p.status.LastScheduleTime = &metav1.Time{Time: at}
}

// upcoming returns the first start after now; at is the last that is due.
func (o observed) upcoming(times schedule, at time.Time) time.Time {
	every, ok := times.(period)
	if !ok {
		return times.next(o.now)
	}
	if at.IsZero() {
		at = o.since()
	}
	for !at.After(o.now) {
		at = every.next(at)
	}
	return at
}

func (o observed) running(active []v1.ObjectReference) []*batch.Job {
	var running []*batch.Job
	for _, job := range o.jobs {
		if slices.ContainsFunc(active, func(ref v1.ObjectReference) bool { return ref.UID == job.UID }) {
			running = append(running, job)
		}
	}
	return running
}

// since is the last start, or the cron job's own.
func (o observed) since() time.Time {
	if o.cron.Status.LastScheduleTime != nil {
		return o.cron.Status.LastScheduleTime.Time
	}
	return o.cron.CreationTimestamp.Time
}

// last returns the latest start that is due and was not made, and how many were missed; zero if none is due.
func (o observed) last(times schedule) (time.Time, int) {
	since := o.since()
	if limit := o.cron.Spec.StartingDeadlineSeconds; limit != nil {
		if earliest := o.now.Add(-time.Duration(*limit) * time.Second); earliest.After(since) {
			since = earliest
		}
	}
	if every, ok := times.(period); ok { // counted from the last start, not from any time
		missed := int(o.now.Sub(o.since()) / time.Duration(every))
		if missed <= 0 {
			return time.Time{}, 0
		}
		return o.since().Add(time.Duration(missed) * time.Duration(every)), missed
	}
	var latest time.Time
	missed := 0
	for t := times.next(since); !t.IsZero() && !t.After(o.now); t = times.next(t) {
		latest = t
		if missed++; missed > manyMissed { // the rest is not counted one by one
			if t = before(times, o.now); !t.IsZero() {
				latest = t
			}
			break
		}
	}
	return latest, missed
}

// before returns the last time of the schedule up to now, found by going back in growing steps.
func before(times schedule, now time.Time) time.Time {
	for back := time.Minute; back < 5*366*24*time.Hour; back *= 2 {
		if t := times.next(now.Add(-back)); !t.IsZero() && !t.After(now) {
			for following := times.next(t); !following.IsZero() && !following.After(now); following = times.next(t) {
				t = following
			}
			return t
		}
	}
	return time.Time{}
}

// jobName is the same for one start however often it is tried.
func jobName(cron *batch.CronJob, at time.Time) string {
	return cron.Name + "-" + strconv.FormatInt(at.Unix()/60, 10)
}

func newJob(cron *batch.CronJob, name string, at time.Time) *batch.Job {
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batch.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: cron.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, kind)},
		},
		Spec: template.Spec,
	}
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	location := time.Local
	if cron.Spec.TimeZone != nil {
		if named, err := time.LoadLocation(*cron.Spec.TimeZone); err == nil {
			location = named
		}
	}
	job.Annotations[batch.CronJobScheduledTimestampAnnotation] = at.In(location).Format(time.RFC3339)
	return job
}
