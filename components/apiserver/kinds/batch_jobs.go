package kinds

import (
	"context"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/batch"
)

var jobParts = parts[*batchv1.Job, batchv1.JobSpec, batchv1.JobStatus]{
	spec:   func(j *batchv1.Job) *batchv1.JobSpec { return &j.Spec },
	status: func(j *batchv1.Job) *batchv1.JobStatus { return &j.Status },
}

var jobTemplate = templated[*batchv1.Job]{
	template: func(obj *batchv1.Job) *corev1.PodTemplateSpec { return &obj.Spec.Template },
	path:     field.NewPath("spec", "template"),
	naming:   true,
	more:     func(j *batchv1.Job) []string { return batch.SpecWarnings(&j.Spec, field.NewPath("spec")) },
}

func jobs(deps Deps) *Kind {
	rules := batch.Rules{Pods: deps.podRules()}
	return define(row[*batchv1.Job]{
		Name: "Job", Resource: "jobs", Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: batch.DefaultJob,
		Strategy: strategy[*batchv1.Job]{
			PrepareCreate: jobTemplate.create(func(ctx context.Context, j *batchv1.Job) {
				batch.GenerateSelector(j)
				jobParts.create(ctx, j)
			}),
			PrepareUpdate:       jobTemplate.update(jobParts.update),
			Validate:            rules.ValidateJob,
			ValidateAmong:       wholeFirst(rules.ValidateJobUpdate, rules.ValidateJobChange),
			Warnings:            jobTemplate.warnings,
			Canonicalize:        batch.LabelJob,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			OrphanWarning: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them " +
				"or set propagationPolicy=Orphan to suppress this warning",
			Reset: []string{"status"},
		},
		Status: &strategy[*batchv1.Job]{
			PrepareUpdate:  jobParts.statusUpdate,
			ValidateUpdate: batch.ValidateJobStatus,
			Reset:          []string{"spec"},
		},
		Columns: batch.JobColumns(),
		Row:     batch.JobRow,
		Fields: map[string]func(*batchv1.Job) string{
			"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
		},
		Unselectable: "field label %[1]q not supported for Job",
	})
}

var cronJobParts = parts[*batchv1.CronJob, batchv1.CronJobSpec, batchv1.CronJobStatus]{
	spec:   func(c *batchv1.CronJob) *batchv1.CronJobSpec { return &c.Spec },
	status: func(c *batchv1.CronJob) *batchv1.CronJobStatus { return &c.Status },
}

var cronJobTemplate = templated[*batchv1.CronJob]{
	template: func(obj *batchv1.CronJob) *corev1.PodTemplateSpec { return &obj.Spec.JobTemplate.Spec.Template },
	path:     field.NewPath("spec", "jobTemplate", "spec", "template"),
	naming:   true,
	more: func(c *batchv1.CronJob) []string {
		return batch.SpecWarnings(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
	},
}

func cronJobWarnings(new, old *batchv1.CronJob) []string {
	out := cronJobTemplate.warnings(new, old)
	if old != nil {
		out = append(out, batch.ScheduleWarnings(new)...)
	}
	return out
}

func cronJobs(deps Deps) *Kind {
	rules := batch.Rules{Pods: deps.podRules()}
	return define(row[*batchv1.CronJob]{
		Name: "CronJob", Resource: "cronjobs", ShortNames: []string{"cj"}, Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: batch.DefaultCronJob,
		Former:  []Version{formerTwin[*batchv1beta1.CronJob](batchv1beta1.SchemeGroupVersion, batch.DefaultCronJob)},
		Strategy: strategy[*batchv1.CronJob]{
			PrepareCreate:       cronJobTemplate.create(cronJobParts.create),
			PrepareUpdate:       cronJobTemplate.update(cronJobParts.update),
			Validate:            rules.ValidateCronJob,
			ValidateUpdate:      rules.ValidateCronJobUpdate,
			Warnings:            cronJobWarnings,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*batchv1.CronJob]{
			Meta: MetaNothing, AnyFinalizer: true,
			PrepareUpdate: cronJobParts.statusUpdate,
			Reset:         []string{"spec"},
		},
		Columns: batch.CronJobColumns(),
		Row:     batch.CronJobRow,
	})
}
