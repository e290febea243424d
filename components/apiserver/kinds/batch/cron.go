package batch

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones of their own

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// maxCronJobName leaves room for the time that a cron job puts behind its name for each job.
const maxCronJobName = 63 - 11

// ValidateCronJob checks a cron job.
func ValidateCronJob(c *batchv1.CronJob) field.ErrorList {
	errs := validateCronSpec(&c.Spec, field.NewPath("spec"))
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata").Child("name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

// ValidateCronJobUpdate checks a change; a name that got in stays allowed.
func ValidateCronJobUpdate(new, _ *batchv1.CronJob) field.ErrorList {
	return validateCronSpec(&new.Spec, field.NewPath("spec"))
}

func validateCronSpec(s *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("schedule")
	if s.Schedule == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		if err := parseSchedule(s.Schedule); err != nil {
			errs = append(errs, field.Invalid(at, s.Schedule, err.Error()))
		}
		if strings.Contains(s.Schedule, "TZ") {
			errs = append(errs, field.Invalid(at, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
		}
	}
	if z := s.TimeZone; z != nil {
		at := path.Child("timeZone")
		switch {
		case *z == "":
			errs = append(errs, field.Invalid(at, z, "timeZone must be nil or non-empty string"))
		case strings.EqualFold(*z, "Local"):
			errs = append(errs, field.Invalid(at, z, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
		default:
			if _, err := time.LoadLocation(*z); err != nil {
				errs = append(errs, field.Invalid(at, z, err.Error()))
			}
		}
	}
	if s.StartingDeadlineSeconds != nil {
		errs = append(errs, checks.NonNegative(*s.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	}
	errs = append(errs, checks.OneOf(s.ConcurrencyPolicy, path.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	for name, limit := range map[string]*int32{"successfulJobsHistoryLimit": s.SuccessfulJobsHistoryLimit, "failedJobsHistoryLimit": s.FailedJobsHistoryLimit} {
		if limit != nil {
			errs = append(errs, checks.NonNegative(int64(*limit), path.Child(name))...)
		}
	}
	job := path.Child("jobTemplate", "spec")
	if s.JobTemplate.Spec.ManualSelector != nil && *s.JobTemplate.Spec.ManualSelector {
		errs = append(errs, field.NotSupported(job.Child("manualSelector"), s.JobTemplate.Spec.ManualSelector, []string{"nil", "false"}))
	}
	return append(errs, validateJobSpec(&s.JobTemplate.Spec, job)...)
}

// bound is the range of one field of a schedule, and the names that it knows.
type bound struct {
	min, max int
	names    map[string]int
}

var schedule = [5]bound{
	{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, map[string]int{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12}},
	{0, 6, map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}},
}

// parseSchedule checks a schedule: five fields, or one of the short forms.
func parseSchedule(text string) error {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		_, rest, ok := strings.Cut(text, " ")
		if !ok {
			return fmt.Errorf("schedule is missing after the time zone: %q", text)
		}
		text = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(text, "@") {
		switch text {
		case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
			return nil
		}
		if every, ok := strings.CutPrefix(text, "@every "); ok {
			if _, err := time.ParseDuration(every); err != nil {
				return fmt.Errorf("failed to parse duration %s: %w", text, err)
			}
			return nil
		}
		return fmt.Errorf("unrecognized descriptor: %s", text)
	}
	fields := strings.Fields(text)
	if len(fields) != len(schedule) {
		return fmt.Errorf("expected exactly %d fields, found %d: %v", len(schedule), len(fields), fields)
	}
	for i, f := range fields {
		for item := range strings.SplitSeq(f, ",") {
			if err := schedule[i].check(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks one range: *, n, n-m, each with an optional step.
func (b bound) check(item string) error {
	span, step, stepped := strings.Cut(item, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil {
			return fmt.Errorf("failed to parse int from %s: %w", step, err)
		} else if n <= 0 {
			return fmt.Errorf("step of range should be a positive number: %s", item)
		}
	}
	if span == "*" || span == "?" {
		return nil
	}
	low, high, ranged := strings.Cut(span, "-")
	from, err := b.number(low)
	if err != nil {
		return err
	}
	to := from
	if ranged {
		if to, err = b.number(high); err != nil {
			return err
		}
	}
	switch {
	case from < b.min:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", from, b.min, item)
	case to > b.max:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", to, b.max, item)
	case from > to:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", from, to, item)
	}
	return nil
}

func (b bound) number(text string) (int, error) {
	if n, ok := b.names[strings.ToLower(text)]; ok {
		return n, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	return n, nil
}
