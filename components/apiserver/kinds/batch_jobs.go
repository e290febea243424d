package kinds

import (
	"context"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/batch"
)

var jobParts = parts[*batchv1.Job, batchv1.JobSpec, batchv1.JobStatus]{
	spec:   func(j *batchv1.Job) *batchv1.JobSpec { return &j.Spec },
	status: func(j *batchv1.Job) *batchv1.JobStatus { return &j.Status },
}

func jobs() *Kind {
	return define(row[*batchv1.Job]{
		Name: "Job", Resource: "jobs", Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: batch.DefaultJob,
		Strategy: strategy[*batchv1.Job]{
			PrepareCreate: func(ctx context.Context, j *batchv1.Job) {
				batch.GenerateSelector(j)
				jobParts.create(ctx, j)
			},
			PrepareUpdate:       jobParts.update,
			Validate:            batch.ValidateJob,
			ValidateUpdate:      batch.ValidateJobUpdate,
			Warnings:            templateWarnings(func(j *batchv1.Job) *corev1.PodTemplateSpec { return &j.Spec.Template }),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			OrphanByDefault:     true,
			Reset:               []string{"status"},
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
	})
}

var cronJobParts = parts[*batchv1.CronJob, batchv1.CronJobSpec, batchv1.CronJobStatus]{
	spec:   func(c *batchv1.CronJob) *batchv1.CronJobSpec { return &c.Spec },
	status: func(c *batchv1.CronJob) *batchv1.CronJobStatus { return &c.Status },
}

func cronJobs() *Kind {
	return define(row[*batchv1.CronJob]{
		Name: "CronJob", Resource: "cronjobs", ShortNames: []string{"cj"}, Categories: []string{"all"},
		Hub:     batchv1.SchemeGroupVersion,
		Default: batch.DefaultCronJob,
		Strategy: strategy[*batchv1.CronJob]{
			PrepareCreate:       cronJobParts.create,
			PrepareUpdate:       cronJobParts.update,
			Validate:            batch.ValidateCronJob,
			ValidateUpdate:      batch.ValidateCronJobUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*batchv1.CronJob]{
			PrepareUpdate: cronJobParts.statusUpdate,
			Reset:         []string{"spec"},
		},
		Columns: batch.CronJobColumns(),
		Row:     batch.CronJobRow,
	})
}
