package batch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var jobParts = api.Parts[*batchv1.Job, batchv1.JobSpec, batchv1.JobStatus]{
	Spec:   func(j *batchv1.Job) *batchv1.JobSpec { return &j.Spec },
	Status: func(j *batchv1.Job) *batchv1.JobStatus { return &j.Status },
}

var jobTemplate = podspec.Templated[*batchv1.Job]{
	Template: func(obj *batchv1.Job) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	Path:     field.NewPath("spec", "template"),
	Naming:   true,
	More:     func(j *batchv1.Job) []string { return SpecWarnings(&j.Spec, field.NewPath("spec")) },
}

func jobs(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*batchv1.Job]{
		Name: "Job", Resource: "jobs", Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: DefaultJob,
		Strategy: api.Strategy[*batchv1.Job]{
			PrepareCreate: jobTemplate.Create(deps.Pods, func(ctx context.Context, j *batchv1.Job) {
				GenerateSelector(j)
				jobParts.Create(ctx, j)
			}),
			PrepareUpdate:       jobTemplate.Update(deps.Pods, jobParts.Update),
			Validate:            api.OfObject(rules.ValidateJob),
			ValidateAmong:       api.WholeFirst(rules.ValidateJobUpdate, rules.ValidateJobChange),
			Warnings:            api.OfChange(jobTemplate.Warnings),
			Canonicalize:        LabelJob,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			OrphanWarning: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to " +
				"remove them " +
				"or set propagationPolicy=Orphan to suppress this warning",
			Reset: []string{"status"},
		},
		Status: &api.Strategy[*batchv1.Job]{
			PrepareUpdate:  jobParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateJobStatus),
			Reset:          []string{"spec"},
		},
		Columns: JobColumns(),
		Row:     JobRow,
		Fields: map[string]func(*batchv1.Job) string{
			"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
		},
		Unselectable: "field label %[1]q not supported for Job",
	})
}

// backoffLimit is how often a job tries again unless told otherwise.
const backoffLimit = 6

// Labels without a prefix, which older clients look for.
const (
	oldControllerUID = "controller-uid"
	oldJobName       = "job-name"
)

// DefaultJob sets the defaults of a job.
func DefaultJob(j *batchv1.Job) {
	s := &j.Spec
	podspec.DefaultTemplate(&s.Template)
	if s.Completions == nil && s.Parallelism == nil {
		setDefault(&s.Completions, 1)
	}
	setDefault(&s.Parallelism, 1)
	limit := int32(backoffLimit)
	if s.BackoffLimitPerIndex != nil {
		limit = math.MaxInt32
	}
	setDefault(&s.BackoffLimit, limit)
	if s.Template.Labels != nil && len(j.Labels) == 0 {
		j.Labels = s.Template.Labels // shared, see GenerateSelector
	}
	setDefault(&s.CompletionMode, batchv1.NonIndexedCompletion)
	setDefault(&s.Suspend, false)
	replacement := batchv1.TerminatingOrFailed
	if s.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	defaultConditions(s)
	setDefault(&s.PodReplacementPolicy, replacement)
	setDefault(&s.ManualSelector, false)
}

// defaultConditions makes rules for pods' failures look for conditions that are true.
func defaultConditions(s *batchv1.JobSpec) {
	if s.PodFailurePolicy == nil {
		return
	}
	for _, rule := range s.PodFailurePolicy.Rules {
		for i := range rule.OnPodConditions {
			if c := &rule.OnPodConditions[i]; c.Status == "" {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}

// GenerateSelector makes a job find its own pods only, by its UID, unless its author manages the selector. Labels that
// the author set stay. A job that has the labels of its template has these, too.
func GenerateSelector(j *batchv1.Job) {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector {
		return
	}
	labels := maps.Clone(j.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range labelsOf(j) {
		if _, set := labels[key]; !set {
			labels[key] = value
		}
	}
	if j.Labels != nil && sameMap(j.Labels, j.Spec.Template.Labels) {
		j.Labels = maps.Clone(labels)
	}
	j.Spec.Template.Labels = labels
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	} else {
		j.Spec.Selector = j.Spec.Selector.DeepCopy()
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, set := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
}

// LabelJob gives a job without labels those of its template. It is done once the job is found valid, lest the faults of
// these labels be told twice.
func LabelJob(j *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(j.Spec.Template.Labels)
	}
}

// sameMap reports whether two maps are one: DefaultJob gave the job the labels of its template.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// manyIndexes and manyPods are beyond what is sure to fit into a job's status (KEP-3850).
const (
	manyIndexes = 100_000
	manyPods    = 10_000
)

// SpecWarnings tells of what is accepted in a job, but may not end well.
func SpecWarnings(s *batchv1.JobSpec, path *field.Path) []string {
	if !indexed(s) || s.Completions == nil || *s.Completions <= manyIndexes || s.Parallelism == nil ||
		*s.Parallelism <= manyPods {
		return nil
	}
	return []string{path.String() +
		": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
		"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"}
}

// DefaultCronJob sets the defaults of a cron job.
func DefaultCronJob(c *batchv1.CronJob) {
	podspec.DefaultTemplate(&c.Spec.JobTemplate.Spec.Template)
	defaultConditions(&c.Spec.JobTemplate.Spec)
	if c.Spec.ConcurrencyPolicy == "" {
		c.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	setDefault(&c.Spec.Suspend, false)
	setDefault(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	setDefault(&c.Spec.FailedJobsHistoryLimit, 1)
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

const (
	namesOfContainers  = "Names of each container in the template."
	imagesOfContainers = "Images referenced by each container in the template."
)

// JobColumns are the columns of jobs.
func JobColumns() show.Columns {
	spec, status := batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	return show.Name().
		String("Status", "Status of the job.").
		String("Completions", status["succeeded"]).
		String("Duration", "Time required to complete the job.").
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", spec["selector"])
}

// JobRow are the cells of a job.
func JobRow(j *batchv1.Job) []any {
	names, images := show.Containers(j.Spec.Template.Spec.Containers)
	return []any{j.Name, jobStatus(j), completions(j), jobDuration(j), show.Age(j.CreationTimestamp),
		names, images, show.Selector(j.Spec.Selector)}
}

func completions(j *batchv1.Job) string {
	if j.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	}
	if p := show.Or(j.Spec.Parallelism, 0); p > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, p)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func jobDuration(j *batchv1.Job) any {
	switch {
	case j.Status.StartTime == nil:
		return ""
	case j.Status.CompletionTime == nil:
		return show.Ago{Since: j.Status.StartTime.Time}
	}
	return duration.HumanDuration(j.Status.CompletionTime.Sub(j.Status.StartTime.Time))
}

func jobStatus(j *batchv1.Job) string {
	has := func(t batchv1.JobConditionType) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == t {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

// CronJobColumns are the columns of cron jobs.
func CronJobColumns() show.Columns {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return show.Name().
		String("Schedule", spec["schedule"]).
		String("Timezone", spec["timeZone"]).
		Of("boolean", "Suspend", spec["suspend"]).
		Of("integer", "Active", status["active"]).
		String("Last Schedule", status["lastScheduleTime"]).
		Age().
		Wide("Containers", namesOfContainers).
		Wide("Images", imagesOfContainers).
		Wide("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])
}

// suspended is text, though the column is said to be boolean.
func suspended(p *bool) string {
	switch {
	case p == nil:
		return show.Unset
	case *p:
		return "True"
	}
	return "False"
}

// CronJobRow are the cells of a cron job.
func CronJobRow(c *batchv1.CronJob) []any {
	var last any = show.None
	if c.Status.LastScheduleTime != nil {
		last = show.Age(*c.Status.LastScheduleTime)
	}
	names, images := show.Containers(c.Spec.JobTemplate.Spec.Template.Spec.Containers)
	return []any{c.Name, c.Spec.Schedule, show.Or(c.Spec.TimeZone, show.None), suspended(c.Spec.Suspend),
		int64(len(c.Status.Active)), last, show.Age(c.CreationTimestamp), names, images,
		show.Selector(c.Spec.JobTemplate.Spec.Selector)}
}
