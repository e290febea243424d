package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/podspec"
)

var cronJobParts = api.Parts[*batchv1.CronJob, batchv1.CronJobSpec, batchv1.CronJobStatus]{
	Spec:   func(c *batchv1.CronJob) *batchv1.CronJobSpec { return &c.Spec },
	Status: func(c *batchv1.CronJob) *batchv1.CronJobStatus { return &c.Status },
}

var cronJobTemplate = podspec.Templated[*batchv1.CronJob]{
	Template: func(obj *batchv1.CronJob) *corev1.PodTemplateSpec { return &obj.Spec.JobTemplate.Spec.Template },
	Path:     field.NewPath("spec", "jobTemplate", "spec", "template"),
	Naming:   true,
	More: func(c *batchv1.CronJob) []string {
		return SpecWarnings(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
	},
}

func cronJobWarnings(new, old *batchv1.CronJob) []string {
	out := cronJobTemplate.Warnings(new, old)
	if old != nil {
		out = append(out, ScheduleWarnings(new)...)
	}
	return out
}

func cronJobs(deps api.Deps) *api.Kind {
	rules := Rules{Pods: podspec.RulesOf(deps)}
	return api.Define(api.Row[*batchv1.CronJob]{
		Name: "CronJob", Resource: "cronjobs", ShortNames: []string{"cj"}, Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: DefaultCronJob,
		RemovedVersions: []api.Version{api.RemovedTwin[*batchv1beta1.CronJob](batchv1beta1.SchemeGroupVersion,
			DefaultCronJob)},
		Strategy: api.Strategy[*batchv1.CronJob]{
			PrepareCreate:       cronJobTemplate.Create(deps.Pods, cronJobParts.Create),
			PrepareUpdate:       cronJobTemplate.Update(deps.Pods, cronJobParts.Update),
			Validate:            api.OfObject(rules.ValidateCronJob),
			ValidateUpdate:      api.OfChange(rules.ValidateCronJobUpdate),
			Warnings:            api.OfChange(cronJobWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*batchv1.CronJob]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			PrepareUpdate: cronJobParts.StatusUpdate,
			Reset:         []string{"spec"},
		},
		Columns: CronJobColumns(),
		Row:     CronJobRow,
	})
}

// maxCronJobName leaves room for the time that a cron job puts behind its name for each job.
const maxCronJobName = 63 - 11

// ValidateCronJob checks a cron job.
func (r Rules) ValidateCronJob(c *batchv1.CronJob) field.ErrorList {
	errs := r.validateCronSpec(&c.Spec, nil, field.NewPath("spec"))
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata").Child("name"), c.Name,
			"must be no more than 52 characters"))
	}
	return errs
}

// ValidateCronJobUpdate checks a change; a name that got in stays allowed.
func (r Rules) ValidateCronJobUpdate(new, old *batchv1.CronJob) field.ErrorList {
	return r.validateCronSpec(&new.Spec, &old.Spec, field.NewPath("spec"))
}

// validateCronSpec checks a spec; old is what it was before, nil if it is new.
func (r Rules) validateCronSpec(s, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	errs := validateSchedule(s, old, path.Child("schedule"))
	if s.StartingDeadlineSeconds != nil {
		errs = append(errs, checks.NonNegative(*s.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	}
	if s.TimeZone != nil && (old == nil || old.TimeZone == nil || *old.TimeZone != *s.TimeZone) {
		errs = append(errs, validateTimeZone(*s.TimeZone, path.Child("timeZone"))...)
	}
	errs = append(errs, checks.OneOf(s.ConcurrencyPolicy, path.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	errs = append(errs, r.validateJobTemplate(s, old, path.Child("jobTemplate"))...)
	if l := s.SuccessfulJobsHistoryLimit; l != nil {
		errs = append(errs, checks.NonNegative(int64(*l), path.Child("successfulJobsHistoryLimit"))...)
	}
	if l := s.FailedJobsHistoryLimit; l != nil {
		errs = append(errs, checks.NonNegative(int64(*l), path.Child("failedJobsHistoryLimit"))...)
	}
	return errs
}

func validateSchedule(s, old *batchv1.CronJobSpec, at *field.Path) field.ErrorList {
	if s.Schedule == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if err := parseSchedule(s.Schedule); err != nil {
		errs = append(errs, field.Invalid(at, s.Schedule, err.Error()))
	}
	if !strings.Contains(s.Schedule, "TZ") {
		return errs
	}
	switch was := old != nil && strings.Contains(old.Schedule, "TZ"); {
	case !was:
		errs = append(errs, field.Invalid(at, s.Schedule,
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case s.TimeZone != nil:
		errs = append(errs, field.Invalid(at, s.Schedule,
			"cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// zonePart is a component of the name of a time zone (https://data.iana.org/time-zones/theory.html#naming), with the
// digits that old names have.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$`)

func validateTimeZone(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Invalid(at, name, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(at, name, "unknown time zone "+name)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(name, "Local") {
		errs = append(errs, field.Invalid(at, name,
			"timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(name); err != nil {
		errs = append(errs, field.Invalid(at, name, err.Error()))
	}
	return errs
}

func (r Rules) validateJobTemplate(s, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	t, at := &s.JobTemplate.Spec, path.Child("spec")
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.JobTemplate.Spec.Template
	}
	errs := r.validateJobSpec(t, was, at)
	if t.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), t.Selector, "`selector` will be auto-generated"))
	}
	if t.ManualSelector != nil && *t.ManualSelector {
		errs = append(errs, field.NotSupported(at.Child("manualSelector"), *t.ManualSelector, []string{"nil", "false"}))
	}
	return errs
}

// parseSchedule checks a schedule: five fields, or one of the short forms. The library takes it for granted that a time
// zone at its start is followed by something; its panic over that is an error.
func parseSchedule(text string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(text)
	return err
}

// ScheduleWarnings tell of a schedule that names its time zone, as only one from former versions may. The path is as
// upstream has it.
func ScheduleWarnings(c *batchv1.CronJob) []string {
	if !strings.Contains(c.Spec.Schedule, "TZ") {
		return nil
	}
	return []string{"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"}
}
