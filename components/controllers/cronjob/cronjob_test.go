package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ schedule, zone, from, want string }{
		{"* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"* * * * *", "UTC", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"},
		{"*/15 * * * *", "UTC", "2026-01-01T00:46:00Z", "2026-01-01T01:00:00Z"},
		{"5/20 3 * * *", "UTC", "2026-01-01T03:06:00Z", "2026-01-01T03:25:00Z"},
		{"0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}, // the 13th, or a Friday
		{"0 0 */2 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"0 0 * * MON-WED", "UTC", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"0 12 31 * *", "UTC", "2026-01-31T12:00:00Z", "2026-03-31T12:00:00Z"},
		{"0 0 29 feb ?", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"@hourly", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		{"@weekly", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"@every 90s", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"},
		{"30 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T07:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"}, // 02:30 is left out that day
		{"TZ=Asia/Tokyo 0 9 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
	} {
		location, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(c.schedule, location)
		if err != nil {
			t.Errorf("%s: %v", c.schedule, err)
			continue
		}
		if got := s.next(at(c.from)); !got.Equal(at(c.want)) {
			t.Errorf("%s after %s: %s, want %s", c.schedule, c.from, got.UTC().Format(time.RFC3339), c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "1-5/2,7 * ? jan sun", "@daily", "@every 1h", "TZ=UTC 0 0 1 1 *",
		"60 * * * *", "* * *", "*/0 * * * *", "5-1 * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text, time.UTC)
		if err != nil {
			return
		}
		from := time.Unix(1_800_000_000, 0)
		if got := s.next(from); !got.IsZero() && !got.After(from) {
			t.Errorf("%q: time doesn't go on", text)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "* * 0 * *", "* * * foo *",
		"@every x", "TZ=UTC", "TZ=No/Where * * * * *"} {
		if s, err := parse(text, time.UTC); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

var created = at("2026-01-01T00:00:30Z")

func cron(change func(*batch.CronJob)) *batch.CronJob {
	c := &batch.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "cron",
			CreationTimestamp: metav1.NewTime(created)},
		Spec: batch.CronJobSpec{
			Schedule: "*/10 * * * *", TimeZone: ptr.To("UTC"), ConcurrencyPolicy: batch.AllowConcurrent,
			SuccessfulJobsHistoryLimit: ptr.To[int32](3), FailedJobsHistoryLimit: ptr.To[int32](1),
			JobTemplate: batch.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}},
		},
	}
	if change != nil {
		change(c)
	}
	return c
}

func job(name string, condition batch.JobConditionType, started time.Time) *batch.Job {
	j := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-of-x",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron(nil), kind)}}}
	j.Status.StartTime = &metav1.Time{Time: started}
	if condition != "" {
		j.Status.Conditions = []batch.JobCondition{{Type: condition, Status: v1.ConditionTrue}}
	}
	if condition == batch.JobComplete {
		j.Status.CompletionTime = &metav1.Time{Time: started.Add(time.Minute)}
	}
	return j
}

func active(names ...string) []v1.ObjectReference {
	var refs []v1.ObjectReference
	for _, name := range names {
		refs = append(refs, v1.ObjectReference{Name: name, UID: "uid-of-x"})
	}
	return refs
}

func TestDecide(t *testing.T) {
	const first = "c-29453770" // 2026-01-01T00:10:00Z
	for name, c := range map[string]struct {
		change func(*batch.CronJob)
		jobs   []*batch.Job
		now    string
		start  string
		stops  int
		note   string
		again  time.Duration
	}{
		"not yet":   {now: "2026-01-01T00:09:00Z", again: time.Minute + 100*time.Millisecond},
		"due":       {now: "2026-01-01T00:10:00Z", start: first, again: 10*time.Minute + 100*time.Millisecond},
		"late":      {now: "2026-01-01T00:35:00Z", start: "c-29453790", again: 5*time.Minute + 100*time.Millisecond},
		"suspended": {change: func(c *batch.CronJob) { c.Spec.Suspend = ptr.To(true) }, now: "2026-01-01T00:10:00Z"},
		"started": {change: func(c *batch.CronJob) {
			c.Status.LastScheduleTime = &metav1.Time{Time: at("2026-01-01T00:10:00Z")}
		}, now: "2026-01-01T00:11:00Z", again: 9*time.Minute + 100*time.Millisecond},
		"too late": {change: func(c *batch.CronJob) { c.Spec.StartingDeadlineSeconds = ptr.To[int64](60) },
			now: "2026-01-01T00:12:00Z", again: 8*time.Minute + 100*time.Millisecond},
		"forbidden": {change: func(c *batch.CronJob) {
			c.Spec.ConcurrencyPolicy, c.Status.Active = batch.ForbidConcurrent, active("old")
		}, jobs: []*batch.Job{job("old", "",
			created)}, now: "2026-01-01T00:10:00Z", note: "JobAlreadyActive",
			again: 10*time.Minute + 100*time.Millisecond},
		"replaced": {change: func(c *batch.CronJob) {
			c.Spec.ConcurrencyPolicy, c.Status.Active = batch.ReplaceConcurrent, active("old")
		}, jobs: []*batch.Job{job("old", "",
			created)}, now: "2026-01-01T00:10:00Z", start: first, stops: 1,
			again: 10*time.Minute + 100*time.Millisecond},
		"many missed": {now: "2026-02-01T00:05:00Z", start: "c-29498400", note: "TooManyMissedTimes",
			again: 5*time.Minute + 100*time.Millisecond},
		"bad zone": {change: func(c *batch.CronJob) { c.Spec.TimeZone = ptr.To("No/Where") },
			now: "2026-01-01T00:10:00Z", note: "UnknownTimeZone"},
		"bad schedule": {change: func(c *batch.CronJob) { c.Spec.Schedule = "x" }, now: "2026-01-01T00:10:00Z",
			note: "UnparseableSchedule"},
		"never": {change: func(c *batch.CronJob) { c.Spec.Schedule = "59 23 31 2 *" },
			now: "2026-01-01T00:10:00Z", note: "InvalidSchedule"},
		"missing job": {change: func(c *batch.CronJob) { c.Status.Active = active("gone") },
			now: "2026-01-01T00:09:00Z", note: "MissingJob", again: time.Minute + 100*time.Millisecond},
		"every": {change: func(c *batch.CronJob) { c.Spec.Schedule = "@every 1h" }, now: "2026-01-01T03:20:30Z",
			start: "c-29453940", again: 40*time.Minute + 100*time.Millisecond},
		"being deleted": {change: func(c *batch.CronJob) { c.DeletionTimestamp = &metav1.Time{Time: created} },
			now: "2026-01-01T00:10:00Z"},
	} {
		p := decide(observed{cron: cron(c.change), jobs: c.jobs, now: at(c.now)})
		started := ""
		if p.start != nil {
			started = p.start.Name
		}
		reasons := ""
		for _, n := range p.notes {
			reasons += n.reason
		}
		if started != c.start || len(p.stop) != c.stops || reasons != c.note || p.again != c.again {
			t.Errorf("%s: starts %q, stops %d, notes %q, again after %v; want %q, %d, %q, %v", name, started,
				len(p.stop), reasons, p.again, c.start, c.stops, c.note, c.again)
		}
	}
}

func TestHistory(t *testing.T) {
	var jobs []*batch.Job
	for i := range 5 {
		jobs = append(jobs, job(fmt.Sprint("good-", i), batch.JobComplete, created.Add(time.Duration(i)*time.Hour)))
		jobs = append(jobs, job(fmt.Sprint("bad-", i), batch.JobFailed, created.Add(time.Duration(i)*time.Hour)))
	}
	p := decide(observed{cron: cron(func(c *batch.CronJob) { c.Spec.Suspend = ptr.To(true) }), jobs: jobs,
		now: created})
	var names []string
	for _, j := range p.forget {
		names = append(names, j.Name)
	}
	if want := "[bad-0 bad-1 bad-2 bad-3 good-0 good-1]"; fmt.Sprint(names) != want {
		t.Errorf("forgets %v, want %s", names, want)
	}
	if got := p.status.LastSuccessfulTime; got == nil || !got.Time.Equal(created.Add(4*time.Hour+time.Minute)) {
		t.Errorf("last success %v", got)
	}
}

func TestStartsAndTakesUp(t *testing.T) {
	fake := clocktesting.NewFakeClock(at("2026-01-01T00:10:05Z"))
	client := runnertest.NewClient(cron(nil))
	events := runnertest.Start(t, client, fake, func(env runner.Env) (runner.Controller, error) { return New(env) })
	runnertest.Saw(t, events, "Created job c-29453770")
	runnertest.Eventually(t, func() (bool, string) {
		c, err := client.BatchV1().CronJobs("ns").Get(t.Context(), "c", metav1.GetOptions{})
		return err == nil && len(c.Status.Active) == 1 && c.Status.LastScheduleTime != nil, fmt.Sprintf("%+v", c.Status)
	})
	made, err := client.BatchV1().Jobs("ns").Get(t.Context(), "c-29453770", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Labels["a"] != "b" ||
		made.Annotations[batch.CronJobScheduledTimestampAnnotation] != "2026-01-01T00:10:00Z" || !metav1.IsControlledBy(made,
		cron(nil)) {
		t.Errorf("job %+v", made.ObjectMeta)
	}
	made.Status.Conditions = []batch.JobCondition{{Type: batch.JobComplete, Status: v1.ConditionTrue}}
	made.Status.CompletionTime = &metav1.Time{Time: at("2026-01-01T00:10:30Z")}
	if _, err := client.BatchV1().Jobs("ns").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, "Saw completed job: c-29453770, condition: Complete")
	runnertest.Eventually(t, func() (bool, string) {
		c, err := client.BatchV1().CronJobs("ns").Get(t.Context(), "c", metav1.GetOptions{})
		return err == nil && len(c.Status.Active) == 0 && c.Status.LastSuccessfulTime != nil,
			fmt.Sprintf("%+v", c.Status)
	})
}

// TestInformersMayBeBehind: neither a job that isn't known yet nor a cron job that doesn't tell of it yet are taken for
// more.
func TestInformersMayBeBehind(t *testing.T) {
	known := job("known", "", created)
	holding := cron(func(c *batch.CronJob) {
		c.Status.Active = []v1.ObjectReference{{Name: known.Name, UID: known.UID}, {Name: "gone", UID: "gone"}}
	})
	c := &Controller{env: runner.Env{Client: runnertest.NewClient(holding, known)}}
	for name, o := range map[string]observed{
		"no job": {cron: holding}, "no status": {cron: cron(nil), jobs: []*batch.Job{known}},
	} {
		o, err := c.catchUp(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var p plan
		p.status = *o.cron.Status.DeepCopy()
		o.bookkeep(&p)
		if len(p.status.Active) != 1 || len(p.notes) != 1 || p.notes[0].reason != "MissingJob" ||
			!strings.HasSuffix(p.notes[0].message, "gone") {
			t.Errorf("%s: active %v, notes %v", name, p.status.Active, p.notes)
		}
	}
}
