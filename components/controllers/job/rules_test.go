package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func exited(container string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: container,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func TestFailureAction(t *testing.T) {
	rule := func(action batch.PodFailurePolicyAction, container *string, op batch.PodFailurePolicyOnExitCodesOperator,
		values ...int32) batch.PodFailurePolicyRule {
		return batch.PodFailurePolicyRule{Action: action, OnExitCodes: &batch.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: container, Operator: op, Values: values}}
	}
	in, notIn := batch.PodFailurePolicyOnExitCodesOpIn, batch.PodFailurePolicyOnExitCodesOpNotIn
	onCondition := func(action batch.PodFailurePolicyAction, status v1.ConditionStatus) batch.PodFailurePolicyRule {
		return batch.PodFailurePolicyRule{Action: action, OnPodConditions: []batch.PodFailurePolicyOnPodConditionsPattern{
			{Type: v1.DisruptionTarget, Status: status}}}
	}
	fail, ignore, count, index := batch.PodFailurePolicyActionFailJob, batch.PodFailurePolicyActionIgnore,
		batch.PodFailurePolicyActionCount, batch.PodFailurePolicyActionFailIndex
	for name, c := range map[string]struct {
		rules   []batch.PodFailurePolicyRule
		want    batch.PodFailurePolicyAction
		message string
	}{
		"no rule": {nil, count, ""},
		"its code": {[]batch.PodFailurePolicyRule{rule(fail, nil, in, 1, 3)}, fail,
			"Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 0"},
		"another code": {[]batch.PodFailurePolicyRule{rule(fail, nil, in, 1, 2)}, count, ""},
		"all but": {[]batch.PodFailurePolicyRule{rule(fail, nil, notIn, 1, 2)}, fail,
			"Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 0"},
		"all but its":     {[]batch.PodFailurePolicyRule{rule(fail, nil, notIn, 3, 7)}, count, ""},
		"0 is no failure": {[]batch.PodFailurePolicyRule{rule(fail, ptr.To("ok"), notIn, 3)}, count, ""},
		"of its container": {[]batch.PodFailurePolicyRule{rule(fail, ptr.To("c"), in, 3)}, fail,
			"Container c for pod ns/p failed with exit code 3 matching FailJob rule at index 0"},
		"of an init container": {[]batch.PodFailurePolicyRule{rule(index, ptr.To("i"), in, 7)}, index,
			"Container i for pod ns/p failed with exit code 7 matching FailIndex rule at index 0"},
		"of another container": {[]batch.PodFailurePolicyRule{rule(fail, ptr.To("ok"), in, 3)}, count, ""},
		"the first counts": {[]batch.PodFailurePolicyRule{rule(fail, nil, in, 1), rule(ignore, nil, in, 3), rule(fail, nil,
			in, 3)}, ignore,
			"Container c for pod ns/p failed with exit code 3 matching Ignore rule at index 1"},
		"a condition": {[]batch.PodFailurePolicyRule{rule(fail, nil, in, 1), onCondition(ignore, v1.ConditionTrue)}, ignore,
			"Pod ns/p has condition DisruptionTarget matching Ignore rule at index 1"},
		"a condition that isn't": {[]batch.PodFailurePolicyRule{onCondition(ignore, v1.ConditionFalse)}, count, ""},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Status: v1.PodStatus{
			Conditions:            []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
			InitContainerStatuses: []v1.ContainerStatus{exited("i", 7)},
			ContainerStatuses:     []v1.ContainerStatus{exited("ok", 0), {Name: "runs"}, exited("c", 3)}}}
		policy := &batch.PodFailurePolicy{Rules: c.rules}
		if c.rules == nil {
			policy = nil
		}
		if got, message := failureAction(policy, pod); got != c.want || message != c.message {
			t.Errorf("%s: %s, %q; want %s, %q", name, got, message, c.want, c.message)
		}
	}
}

// TestRestartsInPlace: with restart policy OnFailure a job fails at its limit of restarts, but not before one.
func TestRestartsInPlace(t *testing.T) {
	for _, c := range []struct{ limit, at int32 }{{0, 1}, {1, 1}, {2, 2}, {3, 3}} {
		for restarts := range c.at + 2 {
			for policy, counts := range map[v1.RestartPolicy]bool{v1.RestartPolicyOnFailure: true,
				v1.RestartPolicyNever: false} {
				pod := podAt("a", -1, 60)
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: restarts / 2}}
				pod.Status.InitContainerStatuses = []v1.ContainerStatus{{RestartCount: restarts - restarts/2}}
				job := jobOf(batch.JobSpec{Completions: ptr.To[int32](1), BackoffLimit: &c.limit,
					Template: v1.PodTemplateSpec{Spec: v1.PodSpec{RestartPolicy: policy}}})
				p := decide(observed{job: job, pods: []*v1.Pod{pod}, expectationsMet: true, now: noon})
				failed := find(&p.status, batch.JobFailureTarget)
				if want := counts && restarts >= c.at; (failed != nil) != want {
					t.Errorf("limit %d, %d restarts, %s: %+v", c.limit, restarts, policy, failed)
				}
				if failed != nil && (failed.Reason != "BackoffLimitExceeded" ||
					failed.Message != "Job has reached the specified backoff limit") {
					t.Errorf("%+v", failed)
				}
			}
		}
	}
}

// TestBackoff doubles from 10 s with each failure since the last success, up to 10 min, and counts from the last.
func TestBackoff(t *testing.T) {
	ended := func(phase v1.PodPhase, secondsAgo int) *v1.Pod {
		pod := podAt(fmt.Sprint(phase, secondsAgo), -1, 1000)
		pod.Status.Phase = phase
		status := exited("c", 1)
		status.State.Terminated.FinishedAt = metav1.NewTime(noon.Add(-time.Duration(secondsAgo) * time.Second))
		pod.Status.ContainerStatuses = []v1.ContainerStatus{status}
		return pod
	}
	failed := func(secondsAgo ...int) []*v1.Pod {
		var all []*v1.Pod
		for _, s := range secondsAgo {
			all = append(all, ended(v1.PodFailed, s))
		}
		return all
	}
	for name, c := range map[string]struct {
		pods []*v1.Pod
		gone deletions
		want time.Duration
	}{
		"nothing failed": {},
		"one, now":       {pods: failed(0), want: 10 * time.Second},
		"one, 3 s ago":   {pods: failed(3), want: 7 * time.Second},
		"one, 10 s ago":  {pods: failed(10)},
		"two":            {pods: failed(30, 0), want: 20 * time.Second},
		"five":           {pods: failed(4, 3, 2, 1, 0), want: 160 * time.Second},
		"a hundred": {pods: failed(slices.Repeat([]int{0}, 1)...), gone: manyDeletions(100),
			want: 10 * time.Minute},
		"a success since":         {pods: append(failed(20), ended(v1.PodSucceeded, 10))},
		"a success between":       {pods: append(failed(20, 0), ended(v1.PodSucceeded, 10)), want: 10 * time.Second},
		"deleted, one":            {gone: deletions{"a": noon}, want: 10 * time.Second},
		"deleted, the second":     {gone: deletions{"a": noon.Add(-15 * time.Second), "b": noon}, want: 20 * time.Second},
		"deleted and seen failed": {pods: failed(0), gone: deletions{"Failed0": noon}, want: 10 * time.Second},
	} {
		s := &step{observed: observed{now: noon}}
		if got := s.backoff(c.pods, c.gone); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func manyDeletions(n int) deletions {
	all := deletions{}
	for i := range n {
		all[types.UID(fmt.Sprint(i))] = noon
	}
	return all
}

// TestLeastDoneFirst: in each row the first is removed before the second, whatever later criteria say.
func TestLeastDoneFirst(t *testing.T) {
	with := func(age int, change ...func(*v1.Pod)) *v1.Pod {
		p := podAt("p", -1, age)
		for _, c := range change {
			c(p)
		}
		return p
	}
	unbound := func(p *v1.Pod) { p.Spec.NodeName = "" }
	in := func(phase v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = phase } }
	ready := func(seconds int) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(noon.Add(-time.Duration(seconds) * time.Second))}}
		}
	}
	restarted := func(n int32) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: n}} }
	}
	for name, c := range map[string]struct{ first, second *v1.Pod }{
		"without a node":      {with(90, unbound, in(v1.PodPending)), with(1, in(v1.PodPending))},
		"pending":             {with(90, in(v1.PodPending)), with(1, in(v1.PodUnknown))},
		"unknown":             {with(90, in(v1.PodUnknown)), with(1)},
		"not ready":           {with(90), with(1, ready(1), restarted(9))},
		"ready for less time": {with(90, ready(5)), with(1, ready(60), restarted(9))},
		"more restarts":       {with(90, ready(5), restarted(2)), with(1, ready(5), restarted(1))},
		"younger":             {with(1), with(90)},
	} {
		for _, order := range [][]*v1.Pod{{c.first, c.second}, {c.second, c.first}} {
			if got := leastDone(order); got[0] != c.first {
				t.Errorf("%s: the other goes first", name)
			}
		}
	}
}

func TestSuccessMessages(t *testing.T) {
	rules := func(all ...batch.SuccessPolicyRule) *batch.SuccessPolicy { return &batch.SuccessPolicy{Rules: all} }
	of := func(indexes string, count int32) batch.SuccessPolicyRule {
		r := batch.SuccessPolicyRule{}
		if indexes != "" {
			r.SucceededIndexes = &indexes
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for name, c := range map[string]struct {
		policy *batch.SuccessPolicy
		done   string
		want   string
	}{
		"none":                   {nil, "0-9", ""},
		"no rules":               {rules(), "0-9", ""},
		"enough of all":          {rules(of("", 3)), "1,5,7", "Matched rules at index 0"},
		"not enough":             {rules(of("", 3)), "1,5", ""},
		"all of some":            {rules(of("0,2", 0)), "0-2", "Matched rules at index 0"},
		"not all of some":        {rules(of("0,2", 0)), "0,1", ""},
		"enough of some":         {rules(of("0-4", 2)), "1,4,9", "Matched rules at index 0"},
		"others don't count":     {rules(of("0-4", 2)), "1,8,9", ""},
		"the first that matches": {rules(of("9", 0), of("", 2), of("", 1)), "0,1", "Matched rules at index 1"},
	} {
		message, met := fulfilled(c.policy, 10, parseIndexes(c.done, 10))
		if message != c.want || met != (c.want != "") {
			t.Errorf("%s: %q, %v", name, message, met)
		}
	}
}

func TestIndexedPods(t *testing.T) {
	job := jobOf(batch.JobSpec{CompletionMode: ptr.To(batch.IndexedCompletion), Completions: ptr.To[int32](5),
		BackoffLimitPerIndex: ptr.To[int32](2), Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Finalizers: []string{"x.dev/f"}},
			Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "c"},
				{Name: "own", Env: []v1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "mine"}}}}}}})
	pod := makePod(job, newPod{index: 3, failures: 1})
	if pod.Labels["batch.kubernetes.io/job-completion-index"] != "3" || pod.Labels["a"] != "b" ||
		pod.Annotations["batch.kubernetes.io/job-completion-index"] != "3" || pod.Spec.Hostname != "j-3" ||
		pod.Annotations["batch.kubernetes.io/job-index-failure-count"] != "1" || pod.GenerateName != "j-3-" ||
		fmt.Sprint(pod.Finalizers) != "[x.dev/f batch.kubernetes.io/job-tracking]" {
		t.Errorf("%+v", pod.ObjectMeta)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		env := c.Env[0]
		own := c.Name == "own" && env.Value == "mine"
		if len(c.Env) != 1 || env.Name != "JOB_COMPLETION_INDEX" || (!own &&
			env.ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']") {
			t.Errorf("%s: %+v", c.Name, c.Env)
		}
	}
	plain := makePod(job, newPod{index: -1})
	if plain.Spec.Hostname != "" || len(plain.Annotations) != 0 || len(plain.Spec.Containers[0].Env) != 0 ||
		plain.GenerateName != "j-" || !tracked(plain) {
		t.Errorf("without an index: %+v", plain)
	}
	if len(job.Spec.Template.Spec.Containers[0].Env) != 0 || len(job.Spec.Template.Finalizers) != 1 {
		t.Error("the template was changed")
	}
}

// TestIndexesProperty compares sets of indexes with maps.
func TestIndexesProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	for range 1000 {
		var s indexes
		want := map[int]bool{}
		for range random.IntN(30) {
			i := random.IntN(40)
			s = s.with(i)
			want[i] = true
		}
		back := parseIndexes(s.String(), 40)
		if !slices.Equal(s, back) || s.count() != len(want) || !apart(s) {
			t.Fatalf("%v: %s, %v", want, s, back)
		}
		for i := range 40 {
			if s.has(i) != want[i] {
				t.Fatalf("%d in %s: %v", i, s, s.has(i))
			}
		}
		cut := parseIndexes(s.String(), 20)
		other := parseIndexes(fmt.Sprintf("%d-%d,%d", random.IntN(40), random.IntN(40), random.IntN(40)), 40)
		both := s.common(other)
		for i := range 40 {
			if cut.has(i) != (want[i] && i < 20) {
				t.Fatalf("%s up to 20: %v", s, cut)
			}
			if both.has(i) != (want[i] && other.has(i)) || !apart(both) {
				t.Fatalf("%s and %s: %s", s, other, both)
			}
			next := i
			for want[next] || other.has(next) {
				next++
			}
			if got := free(i, s, other); got != next {
				t.Fatalf("first from %d on that is not in %s and %s: %d, want %d", i, s, other, got, next)
			}
		}
	}
}

// apart tells that runs are sorted, with a gap between each two.
func apart(s indexes) bool {
	for i, r := range s {
		if r.first > r.last || i > 0 && s[i-1].last+1 >= r.first {
			return false
		}
	}
	return true
}

// The set of many completions is a few runs: adding and reading them takes no walk over all.
func TestIndexesOfManyCompletions(t *testing.T) {
	const completions = 100_000
	s := parseIndexes(fmt.Sprintf("0-%d", completions-1), completions)
	if len(s) != 1 || s.count() != completions {
		t.Fatalf("%d runs of %d indexes", len(s), s.count())
	}
	var grown indexes
	for i := range completions {
		if grown = grown.with(i); len(grown) != 1 {
			t.Fatalf("%d runs after %d indexes", len(grown), i+1)
		}
	}
	if grown.String() != s.String() {
		t.Errorf("%s, want %s", grown, s)
	}
	if huge := parseIndexes("0-999999998", 1_000_000_000); len(huge) != 1 || free(0, huge) != 999_999_999 {
		t.Errorf("%s", huge)
	}
}

// story plays a job whose pods do only what it is told.
type story struct {
	t    *testing.T
	job  *batch.Job
	pods []*v1.Pod
	gone deletions
	now  time.Time
	made int
}

func newStory(t *testing.T, spec batch.JobSpec) *story {
	return &story{t: t, job: jobOf(spec), gone: deletions{}, now: noon}
}

// sync reconciles until nothing happens any more.
func (s *story) sync() {
	for range 10 {
		p := decide(observed{job: s.job, pods: s.pods, expectationsMet: true, deletions: s.gone, now: s.now})
		s.job.Status = p.status
		for uid, at := range p.deletions {
			s.gone[uid] = at
		}
		for _, pod := range p.release {
			pod.Finalizers = nil
		}
		for _, pod := range p.delete {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(s.now))
		}
		for _, n := range p.create {
			s.made++
			pod := makePod(s.job, n)
			pod.Name = fmt.Sprint("p", s.made)
			pod.UID, pod.CreationTimestamp = types.UID(pod.Name), metav1.NewTime(s.now)
			pod.Spec.NodeName, pod.Status.Phase = "ghost", v1.PodPending
			s.pods = append(s.pods, pod)
		}
		if len(p.release)+len(p.delete)+len(p.create) == 0 {
			return
		}
	}
	s.t.Fatal("never settles")
}

// phase changes the oldest n active pods that are not in it.
func (s *story) phase(n int, to v1.PodPhase) {
	for _, pod := range s.pods {
		if n > 0 && pod.DeletionTimestamp == nil && pod.Status.Phase != to &&
			pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			ready := v1.ConditionFalse
			if to == v1.PodRunning {
				ready = v1.ConditionTrue
			}
			pod.Status = v1.PodStatus{Phase: to, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready,
				LastTransitionTime: metav1.NewTime(s.now)}}}
			n--
		}
	}
}

// delete starts the deletion of the oldest active pod.
func (s *story) delete() {
	for _, pod := range s.pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(s.now))
			return
		}
	}
}

// expect reconciles after a while and compares what kubectl shows.
func (s *story) expect(what string, after time.Duration, want string) {
	s.t.Helper()
	s.now = s.now.Add(after)
	s.sync()
	st := s.job.Status
	got := fmt.Sprintf("active=%d ready=%d succeeded=%d failed=%d terminating=%d", st.Active, ptr.Deref(st.Ready, 0),
		st.Succeeded, st.Failed,
		ptr.Deref(st.Terminating, 0))
	for _, c := range st.Conditions {
		got += fmt.Sprintf(" %s=%s:%s", c.Type, c.Status, c.Reason)
	}
	if got != want {
		s.t.Errorf("%s:\n%s, want\n%s", what, got, want)
	}
	if started := st.StartTime != nil; started == strings.Contains(want, "Suspended=True") {
		s.t.Errorf("%s: started %v", what, st.StartTime)
	}
	if done := st.CompletionTime != nil; done != strings.Contains(want, " Complete=True") {
		s.t.Errorf("%s: completed %v", what, st.CompletionTime)
	}
}

func TestStoryOfFailuresAndParallelism(t *testing.T) {
	s := newStory(t, batch.JobSpec{Completions: ptr.To[int32](5), Parallelism: ptr.To[int32](3),
		BackoffLimit: ptr.To[int32](6)})
	s.sync()
	s.phase(3, v1.PodRunning)
	s.expect("3 running", 3*time.Second, "active=3 ready=3 succeeded=0 failed=0 terminating=0")
	s.phase(1, v1.PodFailed)
	s.expect("one failed, 3 s later", 3*time.Second, "active=2 ready=2 succeeded=0 failed=1 terminating=0")
	s.expect("12 s later", 9*time.Second, "active=3 ready=2 succeeded=0 failed=1 terminating=0")
	s.delete()
	s.expect("one terminating", 3*time.Second, "active=2 ready=1 succeeded=0 failed=2 terminating=1")
	s.job.Spec.Parallelism = ptr.To[int32](1)
	s.expect("parallelism 1", 4*time.Second, "active=1 ready=1 succeeded=0 failed=2 terminating=2")
	s.job.Spec.Parallelism = ptr.To[int32](3)
	s.expect("parallelism 3, after two failures", 3*time.Second, "active=1 ready=1 succeeded=0 failed=2 terminating=2")
	for range 5 {
		s.phase(1, v1.PodSucceeded)
		s.now = s.now.Add(2 * time.Second)
		s.sync()
	}
	s.expect("finished, but for those that terminate", 3*time.Second,
		"active=0 ready=0 succeeded=5 failed=2 terminating=2 SuccessCriteriaMet=True:CompletionsReached")
	s.pods = slices.DeleteFunc(s.pods, func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })
	s.expect("all are gone", time.Second, "active=0 ready=0 succeeded=5 failed=2 terminating=0 "+
		"SuccessCriteriaMet=True:CompletionsReached Complete=True:CompletionsReached")
}

func TestStoryOfReplacementOnceFailed(t *testing.T) {
	s := newStory(t, batch.JobSpec{Completions: ptr.To[int32](5), Parallelism: ptr.To[int32](3),
		PodReplacementPolicy: ptr.To(batch.Failed)})
	s.sync()
	s.delete()
	s.expect("one terminating", 4*time.Second, "active=2 ready=0 succeeded=0 failed=0 terminating=1")
	s.pods[0].Status.Phase = v1.PodFailed
	s.expect("and failed", 12*time.Second, "active=3 ready=0 succeeded=0 failed=1 terminating=0")
}

func TestStoryOfDeadlineAndSuspension(t *testing.T) {
	s := newStory(t, batch.JobSpec{Completions: ptr.To[int32](5), Parallelism: ptr.To[int32](3),
		ActiveDeadlineSeconds: ptr.To[int64](6)})
	s.sync()
	s.now = s.now.Add(3 * time.Second)
	s.job.Spec.Suspend = ptr.To(true)
	s.sync()
	s.expect("suspended past the deadline", 6*time.Second,
		"active=0 ready=0 succeeded=0 failed=0 terminating=3 Suspended=True:JobSuspended")
	s.job.Spec.Suspend = ptr.To(false)
	s.sync()
	s.expect("resumed", 3*time.Second, "active=3 ready=0 succeeded=0 failed=0 terminating=3 Suspended=False:JobResumed")
	s.expect("deadline", 5*time.Second, "active=0 ready=0 succeeded=0 failed=3 terminating=6 Suspended=False:JobResumed "+
		"FailureTarget=True:DeadlineExceeded")
}

func TestStoryOfAWorkQueue(t *testing.T) {
	s := newStory(t, batch.JobSpec{Parallelism: ptr.To[int32](3)})
	s.sync()
	s.phase(1, v1.PodSucceeded)
	s.expect("one succeeded", 4*time.Second, "active=2 ready=0 succeeded=1 failed=0 terminating=0")
	s.phase(2, v1.PodSucceeded)
	s.expect("all", 4*time.Second, "active=0 ready=0 succeeded=3 failed=0 terminating=0 "+
		"SuccessCriteriaMet=True:CompletionsReached Complete=True:CompletionsReached")
}
